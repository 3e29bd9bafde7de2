# two.sh: sourced behind tap.sh by tests of two machines, which are network namespaces with a cable
# between them, 10.77.1.1 and 10.77.1.2. Needs root.
#
# two_up ONE TWO   makes them; their processes end and they go at the exit, with $tmp. 1: no root
# ./on ONE|ADDRESS COMMAND...   in $tmp: runs it there, under that host name, which both know
# rank_on ONE      the process of assay there
two_down() {
    local p ns
    for ns in $one $two; do
        for p in $(ip netns pids "$ns" 2>/dev/null); do kill -9 "$p" 2>/dev/null; done
        ip netns del "$ns" 2>/dev/null
    done
}
two_up() {
    local k
    one=$1 two=$2
    ip netns add "$one" 2>/dev/null && ip netns add "$two" && unshare -mu true || return 1
    ip link add v0 netns "$one" type veth peer name v0 netns "$two"
    for k in "$one 10.77.1.1" "$two 10.77.1.2"; do
        set -- $k
        ip -n "$1" link set lo up
        ip -n "$1" addr add "$2/24" dev v0
        ip -n "$1" link set v0 up
    done
    mkdir "$tmp/own"
    printf '%s\n' "127.0.0.1 localhost" "10.77.1.1 $one" "10.77.1.2 $two" >"$tmp/names"
    # The words of COMMAND stand for themselves; mpirun's agent gets them as one.
    cat >"$tmp/on" <<EOT
#!/bin/sh
case \$1 in
10.77.1.1 | $one) ns=$one ;;
*) ns=$two ;;
esac
shift
here="hostname \$ns; mount --bind $tmp/names /etc/hosts; mount -t tmpfs none $tmp/own"
[ \$# = 1 ] && exec ip netns exec \$ns unshare -mu sh -c "\$here; \$1"
exec ip netns exec \$ns unshare -mu sh -c "\$here; exec \\"\\\$@\\"" sh "\$@"
EOT
    chmod +x "$tmp/on"
}
rank_on() {
    local p
    for p in $(ip netns pids "$1"); do
        [ "$(cat "/proc/$p/comm" 2>/dev/null)" = assay ] && echo "$p"
    done | tail -1
}
# The lines of docs/clusters.md that begin with a pattern, word for word but for our files.
told() { # pattern, folder to write
    sed -n "/^$1/{
        s/   *# .*//
        s/ \\.\\.\\.\$/ --config RUN.ini --shards SHARDS --out OUT/
        s|assay train|$ASSAY train|; s|RUN.ini|run.ini|; s|SHARDS|shards|; s|--out OUT|--out $2|
        p
    }" "$docs"
}
