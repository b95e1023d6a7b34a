/*
 * A security key made of software, for the contract tests of our signers (design §3).
 * OpenSSH loads it through SSH_SK_PROVIDER. It keeps no state: the key handle *is* the private key, so it protects
 * nothing and must never leave the tests. The counter is constant and its four bytes differ, so that a verifier
 * which swaps them is found out.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

enum { API_VERSION = 0x000a0000, COUNTER = 0x01020304 };
enum { ALG_ECDSA = 0, ALG_ED25519 = 1 };
enum { FLAG_PRESENT = 0x01, FLAG_VERIFIED = 0x04 };
enum { ERR_GENERAL = -1, ERR_UNSUPPORTED = -2, ERR_PIN_REQUIRED = -3 };

/* The layouts below are the interface that OpenSSH documents in sk-api.h. */
struct sk_enroll_response {
    uint8_t flags;
    uint8_t *public_key;
    size_t public_key_len;
    uint8_t *key_handle;
    size_t key_handle_len;
    uint8_t *signature;
    size_t signature_len;
    uint8_t *attestation_cert;
    size_t attestation_cert_len;
    uint8_t *authdata;
    size_t authdata_len;
};

struct sk_sign_response {
    uint8_t flags;
    uint32_t counter;
    uint8_t *sig_r;
    size_t sig_r_len;
    uint8_t *sig_s;
    size_t sig_s_len;
};

struct sk_option;
struct sk_resident_key;

static int pin_is_missing(uint8_t flags, const char *pin)
{
    return (flags & FLAG_VERIFIED) && (pin == NULL || strcmp(pin, "1234") != 0);
}

static uint8_t *number(const BIGNUM *value, size_t *len)
{
    uint8_t *bytes = malloc(BN_num_bytes(value) + 1);
    *len = bytes == NULL ? 0 : (size_t)BN_bn2bin(value, bytes);
    return bytes;
}

static uint8_t *public_point(uint32_t alg, EVP_PKEY *key, size_t *len)
{
    uint8_t point[65];
    *len = sizeof(point);
    int good = alg == ALG_ED25519
        ? EVP_PKEY_get_raw_public_key(key, point, len)
        : EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point), len);
    uint8_t *copy = good == 1 ? malloc(*len) : NULL;
    return copy == NULL ? NULL : memcpy(copy, point, *len);
}

uint32_t sk_api_version(void)
{
    return API_VERSION;
}

int sk_enroll(uint32_t alg, const uint8_t *challenge, size_t challenge_len, const char *application, uint8_t flags,
              const char *pin, struct sk_option **options, struct sk_enroll_response **answer)
{
    (void)challenge, (void)challenge_len, (void)application, (void)options;
    if (alg != ALG_ECDSA && alg != ALG_ED25519)
        return ERR_UNSUPPORTED;
    if (pin_is_missing(flags, pin))
        return ERR_PIN_REQUIRED;
    EVP_PKEY *key = alg == ALG_ED25519 ? EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") : EVP_EC_gen("P-256");
    struct sk_enroll_response *made = calloc(1, sizeof(*made));
    if (key == NULL || made == NULL)
        return ERR_GENERAL;
    made->flags = flags;
    made->public_key = public_point(alg, key, &made->public_key_len);
    uint8_t *der = NULL;
    int der_len = i2d_PrivateKey(key, &der);
    EVP_PKEY_free(key);
    if (made->public_key == NULL || der_len <= 0 || (made->key_handle = malloc(der_len)) == NULL)
        return ERR_GENERAL;
    memcpy(made->key_handle, der, der_len);
    made->key_handle_len = der_len;
    OPENSSL_free(der);
    *answer = made;
    return 0;
}

/* What a FIDO key signs: sha256(application), flags, counter, sha256(data). */
static size_t statement(uint8_t *out, const char *application, uint8_t flags, const uint8_t *data, size_t data_len)
{
    SHA256((const uint8_t *)application, strlen(application), out);
    out[32] = flags;
    for (int i = 0; i < 4; i++)
        out[33 + i] = (uint8_t)(COUNTER >> (24 - 8 * i));
    SHA256(data, data_len, out + 37);
    return 69;
}

static int split(const uint8_t *der, size_t der_len, struct sk_sign_response *made)
{
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)der_len);
    if (pair == NULL)
        return ERR_GENERAL;
    made->sig_r = number(ECDSA_SIG_get0_r(pair), &made->sig_r_len);
    made->sig_s = number(ECDSA_SIG_get0_s(pair), &made->sig_s_len);
    ECDSA_SIG_free(pair);
    return made->sig_r == NULL || made->sig_s == NULL ? ERR_GENERAL : 0;
}

static int whole(const uint8_t *signature, size_t len, struct sk_sign_response *made)
{
    if ((made->sig_r = malloc(len)) == NULL)
        return ERR_GENERAL;
    memcpy(made->sig_r, signature, len);
    made->sig_r_len = len;
    return 0;
}

int sk_sign(uint32_t alg, const uint8_t *data, size_t data_len, const char *application, const uint8_t *key_handle,
            size_t key_handle_len, uint8_t flags, const char *pin, struct sk_option **options,
            struct sk_sign_response **answer)
{
    uint8_t said[69], signature[128];
    size_t signature_len = sizeof(signature);
    (void)options;
    if (pin_is_missing(flags, pin))
        return ERR_PIN_REQUIRED;
    struct sk_sign_response *made = calloc(1, sizeof(*made));
    EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &key_handle, (long)key_handle_len);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (made == NULL || key == NULL || context == NULL)
        return ERR_GENERAL;
    made->flags = flags & (FLAG_PRESENT | FLAG_VERIFIED);
    made->counter = COUNTER;
    size_t said_len = statement(said, application, made->flags, data, data_len);
    const EVP_MD *digest = alg == ALG_ED25519 ? NULL : EVP_sha256();
    int good = EVP_DigestSignInit(context, NULL, digest, NULL, key) == 1
        && EVP_DigestSign(context, signature, &signature_len, said, said_len) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    if (!good)
        return ERR_GENERAL;
    *answer = made;
    return alg == ALG_ED25519 ? whole(signature, signature_len, made) : split(signature, signature_len, made);
}

int sk_load_resident_keys(const char *pin, struct sk_option **options, struct sk_resident_key ***keys, size_t *count)
{
    (void)pin, (void)options;
    *keys = NULL;
    *count = 0;
    return 0;
}
