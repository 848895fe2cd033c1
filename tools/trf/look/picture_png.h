// A large heat map is an image: PNG with a palette, not compressed, in base64. A part of picture.h.

enum { PICTURE_PIXELS = 2000 }; /* of an image's side; beyond that a pixel is a mean */

struct picture__bytes {
    unsigned char *at;
    size_t n;
};

PICTURE void picture__big_endian(struct picture__bytes *b, uint32_t x)
{
    int i;
    for (i = 24; i >= 0; i -= 8) b->at[b->n++] = (unsigned char)(x >> i);
}

PICTURE uint32_t picture__crc(const unsigned char *at, size_t n)
{
    uint32_t crc = 0xFFFFFFFFu;
    size_t i;
    int bit;
    for (i = 0; i < n; i++) {
        crc ^= at[i];
        for (bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

PICTURE size_t picture__begin_chunk(struct picture__bytes *b, const char *type)
{
    picture__big_endian(b, 0);
    memcpy(b->at + b->n, type, 4);
    b->n += 4;
    return b->n;
}

PICTURE void picture__end_chunk(struct picture__bytes *b, size_t begin)
{
    struct picture__bytes length = {b->at, begin - 8};
    picture__big_endian(&length, (uint32_t)(b->n - begin));
    picture__big_endian(b, picture__crc(b->at + begin - 4, b->n - begin + 4));
}

/* The pixels' steps, one row after another, in stored blocks of zlib's format. */
PICTURE void picture__pixels(struct picture__bytes *b, const unsigned char *steps, long width,
                             long height)
{
    uint32_t low = 1, high = 0;
    long row;
    b->at[b->n++] = 0x78;
    b->at[b->n++] = 0x01;
    for (row = 0; row < height; row++) { /* a block: one byte for the filter, and the pixels */
        unsigned length = (unsigned)width + 1, i;
        b->at[b->n++] = row == height - 1;
        b->at[b->n++] = (unsigned char)(length & 0xFF);
        b->at[b->n++] = (unsigned char)(length >> 8);
        b->at[b->n++] = (unsigned char)(~length & 0xFF);
        b->at[b->n++] = (unsigned char)(~length >> 8 & 0xFF);
        b->at[b->n++] = 0;
        memcpy(b->at + b->n, steps + row * width, (size_t)width);
        for (i = 0; i < length; i++) {
            low = (low + b->at[b->n - 1 + i]) % 65521;
            high = (high + low) % 65521;
        }
        b->n += (size_t)width;
    }
    picture__big_endian(b, high << 16 | low);
}

PICTURE void picture__base64(FILE *to, const struct picture__bytes *b)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t i;
    for (i = 0; i < b->n; i += 3) {
        uint32_t x = (uint32_t)b->at[i] << 16;
        if (i + 1 < b->n) x |= (uint32_t)b->at[i + 1] << 8;
        if (i + 2 < b->n) x |= b->at[i + 2];
        putc(digit[x >> 18], to);
        putc(digit[x >> 12 & 63], to);
        putc(i + 1 < b->n ? digit[x >> 6 & 63] : '=', to);
        putc(i + 2 < b->n ? digit[x & 63] : '=', to);
    }
}

PICTURE int picture__png(FILE *to, const unsigned char *steps, long width, long height,
                         const struct picture__scale *scale)
{
    struct picture__bytes b = {NULL, 0};
    size_t begin;
    int i;
    b.at = (unsigned char *)malloc((size_t)height * ((size_t)width + 6) + 2048);
    if (!b.at) return 1;
    memcpy(b.at, "\x89PNG\r\n\x1a\n", 8);
    b.n = 8;
    begin = picture__begin_chunk(&b, "IHDR");
    picture__big_endian(&b, (uint32_t)width);
    picture__big_endian(&b, (uint32_t)height);
    memcpy(b.at + b.n, "\x08\x03\x00\x00\x00", 5); /* eight bits a pixel, of a palette */
    b.n += 5;
    picture__end_chunk(&b, begin);
    begin = picture__begin_chunk(&b, "PLTE");
    for (i = 0; i <= PICTURE_STEPS; i++) {
        uint32_t rgb = picture__colour(scale, i);
        b.at[b.n++] = (unsigned char)(rgb >> 16);
        b.at[b.n++] = (unsigned char)(rgb >> 8 & 0xFF);
        b.at[b.n++] = (unsigned char)(rgb & 0xFF);
    }
    picture__end_chunk(&b, begin);
    begin = picture__begin_chunk(&b, "IDAT");
    picture__pixels(&b, steps, width, height);
    picture__end_chunk(&b, begin);
    picture__end_chunk(&b, picture__begin_chunk(&b, "IEND"));
    picture__base64(to, &b);
    free(b.at);
    return 0;
}
