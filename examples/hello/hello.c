// hello: says its version and which instance it is. HELLO_MODE=sick starts and never listens, broken exits at once.
#define _GNU_SOURCE
#include "http.h"
#include "websocket.h"

static char version[32], instance[128];

static int answer(const char *path, char *body, const char **type) {
    if (!strcmp(path, "/health")) return snprintf(body, BODY_MAX, "ok\n"), 200;
    if (!strcmp(path, "/slow")) {
        int ms = 0;
        sscanf(query, "ms=%d", &ms);
        pause_ms(ms < 0 ? 0 : ms > 60000 ? 60000 : ms);
    } else if (strcmp(path, "/")) {
        return snprintf(body, BODY_MAX, "there is nothing here\n"), 404;
    }
    *type = "application/json";
    snprintf(body, BODY_MAX, "{\"version\":\"%s\",\"instance\":\"%s\"}\n", version, instance);
    return 200;
}

int main(void) {
    const char *mode = getenv("HELLO_MODE"), *said = getenv("HELLO_VERSION"), *name = getenv("HELLO_INSTANCE");
    snprintf(version, sizeof version, "%s", said ? said : "?");
    if (name) snprintf(instance, sizeof instance, "%s", name);
    else gethostname(instance, sizeof instance - 1);
    if (mode && !strcmp(mode, "broken")) {
        fprintf(stderr, "hello %s is broken and exits\n", version);
        return 1;
    }
    mind_signals();
    if (mode && !strcmp(mode, "sick")) {
        fprintf(stderr, "hello %s is sick and will never answer\n", version);
        for (;;) pause_ms(60000);
    }
    fprintf(stderr, "hello %s serves on %d\n", version, port_or(8080));
    upgrade_with = echo_websocket;
    serve(8080, answer);
}
