// greeter: a gRPC server without TLS on 8080, for what stands behind a proxy that speaks HTTP/2 to it.
//
// grpc.health.v1.Health/Check says SERVING; greeter.Greeter/Hello answers {string version = 1; string instance = 2;}.
// holdfast.v1.SnapshotService/Snapshot writes a file below /data for a backup, and answers its path.
#define _GNU_SOURCE
#include "../hello/server.h"
#include <nghttp2/nghttp2.h>

enum { PATH_SIZE = 128, MESSAGE_MAX = 512 };
enum { OK = 0, UNIMPLEMENTED = 12 };

static char version[32], instance[128];

// One call: what was asked for, the message that goes out, and how much of it went.
typedef struct call {
    char path[PATH_SIZE];
    uint8_t message[MESSAGE_MAX];
    size_t size, sent;
    int status;
    struct call *next;
} call;

typedef struct {
    int link;
    call *calls;
} peer;

// ---- messages

static void append_text(call *one, int field, const char *text) {
    size_t length = strlen(text);  // below 128, so that one byte says it
    one->message[one->size++] = field << 3 | 2;
    one->message[one->size++] = length;
    memcpy(one->message + one->size, text, length);
    one->size += length;
}

// What a backup needs: a file that does not change while it is copied. Elsewhere a database would write its copy here.
static void snapshot(call *one) {
    static const char path[] = "/data/greetings.snapshot", half[] = "/data/.greetings.snapshot";
    FILE *file = fopen(half, "w");
    int done = file && fprintf(file, "greetings of %s\n", instance) > 0 && !fflush(file) && !fsync(fileno(file));
    if (file && fclose(file)) done = 0;
    if (done && !rename(half, path)) {
        one->message[one->size++] = 1 << 3, one->message[one->size++] = 1;  // success
        append_text(one, 3, path);
    } else {
        append_text(one, 2, "it cannot write below /data");
    }
}

// Five bytes stand before every message: not compressed, and its length.
static void answer(call *one) {
    one->size = 5;
    if (!strcmp(one->path, "/grpc.health.v1.Health/Check")) {
        one->message[one->size++] = 1 << 3, one->message[one->size++] = 1;  // status = SERVING
    } else if (!strcmp(one->path, "/greeter.Greeter/Hello")) {
        append_text(one, 1, version);
        append_text(one, 2, instance);
    } else if (!strcmp(one->path, "/holdfast.v1.SnapshotService/Snapshot")) {
        snapshot(one);
    } else {
        one->size = 0, one->status = UNIMPLEMENTED;
        return;
    }
    uint32_t length = htonl(one->size - 5);
    memcpy(one->message + 1, &length, 4);
}

// ---- HTTP/2

#define FIELD(name, value) {(uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE}

// After the message comes the status, as trailers; nghttp2 keeps a copy of them.
static ssize_t read_message(nghttp2_session *session, int32_t stream, uint8_t *out, size_t room, uint32_t *flags,
                            nghttp2_data_source *source, void *unused) {
    call *one = source->ptr;
    size_t size = one->size - one->sent < room ? one->size - one->sent : room;
    (void)unused;
    memcpy(out, one->message + one->sent, size);
    one->sent += size;
    if (one->sent == one->size) {
        nghttp2_nv trailers[] = {FIELD("grpc-status", "0")};
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, stream, trailers, 1);
    }
    return size;
}

static void respond(nghttp2_session *session, int32_t stream, call *one) {
    char status[8];
    answer(one);
    snprintf(status, sizeof status, "%d", one->status);
    nghttp2_nv headers[] = {FIELD(":status", "200"), FIELD("content-type", "application/grpc"),
                            FIELD("grpc-status", status)};
    nghttp2_data_provider message = {.source.ptr = one, .read_callback = read_message};
    if (one->status == OK) nghttp2_submit_response(session, stream, headers, 2, &message);
    else nghttp2_submit_response(session, stream, headers, 3, NULL);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *given) {
    peer *from = given;
    call *one = calloc(1, sizeof *one);
    if (!one) return NGHTTP2_ERR_CALLBACK_FAILURE;
    one->next = from->calls;
    from->calls = one;
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, one);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t size, uint8_t flags, void *unused) {
    call *one = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags, (void)unused;
    if (one && name_size == 5 && !memcmp(name, ":path", 5))
        snprintf(one->path, sizeof one->path, "%.*s", (int)size, (const char *)value);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *unused) {
    (void)unused;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    call *one = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (one && frame->hd.flags & NGHTTP2_FLAG_END_STREAM) respond(session, frame->hd.stream_id, one);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *given) {
    call *one = nghttp2_session_get_stream_user_data(session, stream), **at = &((peer *)given)->calls;
    (void)code;
    while (*at && *at != one) at = &(*at)->next;
    if (*at) *at = one->next;
    free(one);
    return 0;
}

static ssize_t on_send(nghttp2_session *session, const uint8_t *content, size_t size, int flags, void *to) {
    (void)session, (void)flags;
    return send_all(((peer *)to)->link, content, size) ? (ssize_t)size : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static nghttp2_session *new_session(peer *with) {
    nghttp2_session *session;
    nghttp2_session_callbacks *calls;
    nghttp2_session_callbacks_new(&calls);
    nghttp2_session_callbacks_set_send_callback(calls, on_send);
    nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    nghttp2_session_server_new(&session, calls, with);
    nghttp2_session_callbacks_del(calls);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0);
    return session;
}

// Busy from the moment something came until all that is to be said about it is on its way.
static void *converse_h2(void *given) {
    peer with = {.link = (int)(intptr_t)given};
    uint8_t received[16384];
    nghttp2_session *session = new_session(&with);
    for (ssize_t size = 0; size >= 0;) {
        atomic_fetch_add(&busy, 1);
        int heard = nghttp2_session_mem_recv(session, received, size) >= 0 && !nghttp2_session_send(session);
        atomic_fetch_sub(&busy, 1);
        if (!heard || (!nghttp2_session_want_read(session) && !nghttp2_session_want_write(session))) break;
        size = recv(with.link, received, sizeof received, 0);
        if (size == 0) break;
    }
    nghttp2_session_del(session);
    for (call *one = with.calls, *next; one; one = next) next = one->next, free(one);
    close(with.link);
    return NULL;
}

int main(void) {
    const char *said = getenv("GREETER_VERSION"), *name = getenv("GREETER_INSTANCE");
    snprintf(version, sizeof version, "%s", said ? said : "?");
    if (name) snprintf(instance, sizeof instance, "%.127s", name);
    else gethostname(instance, sizeof instance - 1);
    mind_signals();
    fprintf(stderr, "greeter %s serves gRPC on %d\n", version, port_or(8080));
    open_door(8080, converse_h2);
}
