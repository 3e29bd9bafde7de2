/* hash: SHA-256 for identity (OpenSSL's libcrypto), a fast 64-bit hash for tables, CRC-32C for records.
 *
 * Hashes of inputs are SHA-256 as 64 lower-case hex digits. hash64 is for hash tables only; its
 * values never reach a file.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct sha256 {
    void *ctx;
};

#define SHA256_HEX 65

void sha256_begin(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *p, size_t n);
/* A text with its length before it, so that two texts in a row are no third one. */
void sha256_part(struct sha256 *h, struct str s);
void sha256_end(struct sha256 *h, unsigned char out[32]); /* releases */
void sha256_end_hex(struct sha256 *h, char hex[SHA256_HEX]);
void sha256_hex(struct str s, char hex[SHA256_HEX]);
/* First 8 bytes of SHA-256(s) as a little-endian number: stable, for splits and orders. */
uint64_t sha256_u64(struct str s);
/* Streams a file. A folder or unreadable file is an error. */
int sha256_file(const char *path, char hex[SHA256_HEX], struct err *e);

uint64_t hash64(const void *p, size_t n, uint64_t seed);
uint32_t crc32c(uint32_t crc, const void *p, size_t n); /* Castagnoli, start with 0 */

#endif
