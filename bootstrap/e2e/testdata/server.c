/*
 * server PORT: an HTTP server that answers each request as a chat completion, for a root
 * that has a C library and nothing else. "server exit N" ends with status N.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static const char answer[] =
	"{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"toy\","
	"\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"yes\"},\"finish_reason\":\"stop\"}],"
	"\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}}";

/* Reads one request, as far as its length says. */
static void take(int client)
{
	char request[65536];
	size_t length = 0;

	while (length < sizeof(request) - 1) {
		ssize_t n = read(client, request + length, sizeof(request) - 1 - length);

		if (n <= 0)
			return;
		length += (size_t)n;
		request[length] = 0;
		char *end = strstr(request, "\r\n\r\n");
		if (!end)
			continue;
		size_t body = 0;
		for (char *line = request; line < end; line = strstr(line, "\r\n") + 2)
			if (!strncasecmp(line, "content-length:", 15))
				body = strtoul(line + 15, NULL, 10);
		if (length >= (size_t)(end + 4 - request) + body)
			return;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1;

	if (argc == 3 && !strcmp(argv[1], "exit"))
		return atoi(argv[2]);
	if (argc != 2)
		return 2;
	int server = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	address.sin_port = htons((unsigned short)atoi(argv[1]));
	if (bind(server, (struct sockaddr *)&address, sizeof(address)) || listen(server, 8)) {
		perror("listen");
		return 1;
	}
	for (;;) {
		int client = accept(server, NULL, NULL);
		char head[256];

		if (client < 0)
			return 1;
		take(client);
		int n = snprintf(head, sizeof(head),
				 "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\nconnection: close\r\n\r\n",
				 strlen(answer));
		if (write(client, head, (size_t)n) < 0 || write(client, answer, strlen(answer)) < 0)
			perror("write");
		close(client);
	}
}
