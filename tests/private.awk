# private.awk - the header without the bodies of its functions: awk -f tests/private.awk transformer.h
#
# Suites that look into objects include it, and are linked with one object of the implementation, whose private
# functions are external (-DTRF__FN=). What a macro defines stays, and is static in each suite.
body { if (/^}/) body = 0; next }
macro { print; macro = /\\$/; next }
/^#.*\\$/ { print; macro = 1; next }
# tables of kernels are of the levels that a suite may not be built with; a sanitizer keeps those that nobody reads
/^static const trf__(bf16|int8)_kernel /{ body = 1; next }
!signature && /^(TRF__FN|TRF_API) / { signature = 1; text = ""; sub(/^TRF__FN/, "extern") }
!signature { print; next }
/^\{/ { print text ";"; signature = 0; body = !/}$/; next }
/;$/ && !/\{/ { print text $0; signature = 0; next }
/\{.*\}$/ { sub(/ *\{.*/, ""); print text $0 ";"; signature = 0; next }
{ text = text $0 "\n" }
