# What the suites in sh share: a temporary folder, checks and their count. A suite makes its paths
# absolute, then reads this file: . "$(dirname "$0")/checks.sh". Its last line is: finish

source=$(cd "$(dirname "$0")/.." && pwd)    # the checkout
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
trap 'kill $! 2>/dev/null; exit 1' INT TERM HUP
cd "$here" || exit 1
passed=0
failed=0

# check NAME COMMAND...: passes if the command succeeds
check()
{
    label=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $label"; fi
}

# The last line of a suite, and its status.
finish()
{
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ]
}
