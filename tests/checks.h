/* Calls that succeed or fail, with everything that an error promises. Include it after cmocka.h. */
#ifndef CHECKS_H
#define CHECKS_H

#include "kit.h"

static trf_error err;
static int dirty(void) { memset(&err, 0x55, sizeof err); return 0; }
static void check_ok(trf_status status)
{
    assert_int_equal(status, TRF_OK);
    assert_int_equal(err.status, TRF_OK);
    assert_int_equal(err.where, -1);
    assert_string_equal(err.message, "");
}
static KIT_UNUSED void check_fails(trf_status status, trf_status wanted, const char *what, int64_t where)
{
    assert_string_equal(trf_status_name(status), trf_status_name(wanted));
    assert_int_equal(err.status, wanted);
    assert_string_equal(err.what, what);
    assert_int_equal(err.where, where);
    assert_true(strlen(err.message) > 10);
}
#define OK(call) (dirty(), check_ok(call))
#define DONE(call) assert_int_equal(call, TRF_OK) /* an internal call, which leaves err alone */
#define FAILS(call, status, what, where) (dirty(), check_fails(call, status, what, where))

#endif
