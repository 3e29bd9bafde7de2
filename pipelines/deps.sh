#!/bin/sh
# deps: installs the Debian packages named as arguments that are missing, when it can (root or
# passwordless sudo), and says so; otherwise prints the one command to run and fails.
set -u
missing=
for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "deps: this system has no apt-get; please install the equivalents of:$missing" >&2
    exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then
        sudo="sudo -n"
    else
        echo "deps: missing:$missing" >&2
        echo "deps: please run: sudo apt-get update && sudo apt-get install -y$missing" >&2
        exit 1
    fi
fi
echo "deps: installing$missing" >&2
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
    echo "deps: apt-get failed; to see why: apt-get install$missing" >&2
    exit 1
}
