// An echo over WebSocket (RFC 6455): every message comes back in the frames it came in, pings are answered.
// Included after http.h.

enum { HEAD_MAX = 4, CONTENT_MAX = 65535, CLOSE = 8, PING = 9, PONG = 10, FINAL = 0x80, MASKED = 0x80 };
enum { PROTOCOL_ERROR = 1002, TOO_BIG = 1009 };

// ---- the proof that the handshake was understood: SHA-1 and base64 of the client's key

static uint32_t turned(uint32_t word, int bits) { return word << bits | word >> (32 - bits); }

static void sha1_block(const uint8_t *block, uint32_t state[5]) {
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | block[4 * t + 1] << 16 | block[4 * t + 2] << 8 | block[4 * t + 3];
    for (int t = 16; t < 80; t++) w[t] = turned(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (int t = 0; t < 80; t++) {
        uint32_t mixed = t < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                         : t < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                         : t < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                  : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = turned(a, 5) + mixed + e + w[t];
        e = d, d = c, c = turned(b, 30), b = a, a = next;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

// Of texts below 120 bytes, which is all a handshake has: two blocks, the length at their end.
static void sha1(const char *text, uint8_t digest[20]) {
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t blocks[128] = {0};
    size_t size = strlen(text), bits = size * 8, whole = size < 56 ? 64 : 128;
    memcpy(blocks, text, size);
    blocks[size] = 0x80;
    blocks[whole - 2] = bits >> 8, blocks[whole - 1] = bits;
    for (size_t at = 0; at < whole; at += 64) sha1_block(blocks + at, state);
    for (int byte = 0; byte < 20; byte++) digest[byte] = state[byte / 4] >> (24 - byte % 4 * 8);
}

static void base64(const uint8_t *bytes, int size, char *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int at = 0; at < size; at += 3) {
        uint32_t three = bytes[at] << 16;
        if (at + 1 < size) three |= bytes[at + 1] << 8;
        if (at + 2 < size) three |= bytes[at + 2];
        for (int letter = 0; letter < 4; letter++)
            *text++ = at + letter > size ? '=' : letters[three >> (18 - 6 * letter) & 63];
    }
    *text = 0;
}

// ---- frames

static int receive_all(int link, uint8_t *content, size_t size) {
    return !size || recv(link, content, size, MSG_WAITALL) == (ssize_t)size;
}

// `content` has HEAD_MAX free bytes before it.
static int send_frame(int link, uint8_t first, uint8_t *content, size_t size) {
    int wide = size > 125;
    uint8_t *frame = content - (wide ? 4 : 2);
    frame[0] = first, frame[1] = wide ? 126 : size;
    if (wide) frame[2] = size >> 8, frame[3] = size;
    return send_all(link, frame, content - frame + size);
}

static int refuse(int link, int code) {
    send_frame(link, FINAL | CLOSE, (uint8_t[]){0, 0, 0, 0, code >> 8, code} + HEAD_MAX, 2);
    return 0;
}

// The length as it is written after the first two bytes; UINT64_MAX if the peer is gone.
static uint64_t receive_length(int link, uint8_t said) {
    uint8_t bytes[8];
    int wide = said == 126 ? 2 : said == 127 ? 8 : 0;
    uint64_t size = wide ? 0 : said;
    if (!receive_all(link, bytes, wide)) return UINT64_MAX;
    for (int at = 0; at < wide; at++) size = size << 8 | bytes[at];
    return size;
}

// One frame is read and answered; 0 if that was the last.
static int echo_frame(int link) {
    uint8_t head[2], mask[4], frame[HEAD_MAX + CONTENT_MAX], *content = frame + HEAD_MAX;
    if (!receive_all(link, head, 2)) return 0;
    uint64_t size = receive_length(link, head[1] & 127);
    int kind = head[0] & 15, control = kind >= CLOSE, known = kind <= 2 || (kind >= CLOSE && kind <= PONG);
    if (head[0] & 0x70 || !known || !(head[1] & MASKED)) return refuse(link, PROTOCOL_ERROR);
    if (control && (size > 125 || !(head[0] & FINAL))) return refuse(link, PROTOCOL_ERROR);
    if (size > CONTENT_MAX) return refuse(link, TOO_BIG);
    if (!receive_all(link, mask, 4) || !receive_all(link, content, size)) return 0;
    for (size_t at = 0; at < size; at++) content[at] ^= mask[at % 4];
    if (kind == PONG) return 1;
    return send_frame(link, kind == PING ? FINAL | PONG : head[0], content, size) && kind != CLOSE;
}

// ---- the way in: GET /ws with a key

static int header(const char *head, const char *name, char *value, size_t size) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\r\n%s:", name);
    const char *found = strcasestr(head, wanted);
    if (!found) return 0;
    found += strlen(wanted);
    found += strspn(found, " \t");
    snprintf(value, size, "%.*s", (int)strcspn(found, "\r"), found);
    return 1;
}

static int echo_websocket(int link, const char *path, const char *head) {
    char key[32], asked[32], proof[128], answer[256];
    uint8_t digest[20];
    if (strcmp(path, "/ws") || !header(head, "Sec-WebSocket-Key", key, sizeof key)) return 0;
    if (!header(head, "Upgrade", asked, sizeof asked) || strcasecmp(asked, "websocket")) return 0;
    snprintf(proof, sizeof proof, "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    sha1(proof, digest);
    base64(digest, 20, proof);
    int size = snprintf(answer, sizeof answer,
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Accept: %s\r\n\r\n",
                        proof);
    receive_at_most_ms(link, 0);
    atomic_fetch_sub(&busy, 1);  // an open WebSocket does not delay the end of the server
    if (send_all(link, answer, size)) while (echo_frame(link));
    atomic_fetch_add(&busy, 1);
    return 1;
}
