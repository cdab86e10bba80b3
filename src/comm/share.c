#include "comm/share.h"

#include <assert.h>

static const __int128 limit = INT64_MAX;

static __int128 gcd(__int128 a, __int128 b)
{
    while (b != 0) {
        __int128 r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

struct share share_make(int64_t num, int64_t den)
{
    int64_t g = (int64_t)gcd(num, den);

    assert(den > 0);
    return (struct share){num / g, den / g};
}

bool share_add(struct share a, struct share b, struct share *out)
{
    __int128 num = (__int128)a.num * b.den + (__int128)b.num * a.den;
    __int128 den = (__int128)a.den * b.den;
    __int128 g = gcd(num, den);

    if (num / g > limit || den / g > limit) {
        return false;
    }
    *out = (struct share){(int64_t)(num / g), (int64_t)(den / g)};
    return true;
}

bool share_equal(struct share a, struct share b)
{
    return (__int128)a.num * b.den == (__int128)b.num * a.den;
}

size_t share_floor(size_t n, struct share a)
{
    return (size_t)((unsigned __int128)n * (uint64_t)a.num / (uint64_t)a.den);
}
