/* hash: SHA-256 (libcrypto), table hash and CRC-32C, see hash.h. */
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

void sha256_begin(struct sha256 *h)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    h->ctx = ctx;
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        /* Only out of memory or a crypto library without SHA-256 comes here. */
        static const char msg[] = "assay: libcrypto gives no SHA-256\n";
        (void)!write(2, msg, sizeof msg - 1);
        __builtin_trap();
    }
}

void sha256_add(struct sha256 *h, const void *p, size_t n)
{
    EVP_DigestUpdate(h->ctx, p, n);
}

void sha256_part(struct sha256 *h, struct str s)
{
    uint64_t n = s.n;
    sha256_add(h, &n, sizeof n);
    sha256_add(h, s.p, s.n);
}

void sha256_end(struct sha256 *h, unsigned char out[32])
{
    EVP_DigestFinal_ex(h->ctx, out, NULL);
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
}

void sha256_end_hex(struct sha256 *h, char hex[SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[32];
    sha256_end(h, raw);
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[raw[i] >> 4];
        hex[2 * i + 1] = digits[raw[i] & 15];
    }
    hex[64] = '\0';
}

void sha256_hex(struct str s, char hex[SHA256_HEX])
{
    struct sha256 h;
    sha256_begin(&h);
    sha256_add(&h, s.p, s.n);
    sha256_end_hex(&h, hex);
}

uint64_t sha256_u64(struct str s)
{
    unsigned char raw[32];
    struct sha256 h;
    sha256_begin(&h);
    sha256_add(&h, s.p, s.n);
    sha256_end(&h, raw);
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | raw[i];
    return v;
}

int sha256_file(const char *path, char hex[SHA256_HEX], struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "open %s", path);
    struct stat st;
    int r = 0;
    enum { CHUNK = 1 << 18 };
    char *buf = mem_alloc(CHUNK);
    struct sha256 h;
    sha256_begin(&h);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        r = err_set(e, "%s is a folder, not a file", path);
        goto out;
    }
    for (;;) {
        ssize_t n = read(fd, buf, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            r = err_sys(e, "read %s", path);
            goto out;
        }
        if (n == 0)
            break;
        sha256_add(&h, buf, (size_t)n);
    }
out:
    sha256_end_hex(&h, hex);
    close(fd);
    free(buf);
    return r;
}

static uint64_t load64(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t m = (__uint128_t)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Multiply-fold over 16-byte blocks: fast on the short keys of tables. */
uint64_t hash64(const void *data, size_t n, uint64_t seed)
{
    const uint64_t k0 = 0xa0761d6478bd642fu, k1 = 0xe7037ed1a0b428dbu;
    const unsigned char *p = data;
    uint64_t h = seed ^ k0;
    size_t left = n;
    while (left > 16) {
        h = mix(load64(p, 8) ^ k1, load64(p + 8, 8) ^ h);
        p += 16;
        left -= 16;
    }
    uint64_t a = load64(p, left < 8 ? left : 8), b = left > 8 ? load64(p + 8, left - 8) : 0;
    return mix(k1 ^ n, mix(a ^ k1, b ^ h));
}

/* Eight tables of the reflected polynomial 0x82F63B78, so that eight bytes cost eight look-ups side by
 * side ("slicing by 8"; Kounavis and Berry 2005). table[k][b]: the byte b followed by k zero bytes. */
static void crc_tables(uint32_t table[8][256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
        table[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

uint32_t crc32c(uint32_t crc, const void *data, size_t n)
{
    static uint32_t table[8][256]; /* made on first use; racing makers write the same */
    static bool made;
    if (!__atomic_load_n(&made, __ATOMIC_ACQUIRE)) {
        crc_tables(table);
        __atomic_store_n(&made, true, __ATOMIC_RELEASE);
    }
    const unsigned char *p = data;
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v = load64(p, 8) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= table[7 - k][v >> (8 * k) & 255];
    }
    while (n--)
        crc = table[0][(crc ^ *p++) & 255] ^ crc >> 8;
    return ~crc;
}
