/* Included before the implementation that `make` compiles once: whether TRF_PRODUCTS_AUTO is the
   built-in product. For programs it is not; a suite defines the variable (kit.h). */
int kit_auto_is_own __attribute__((weak)) = 0;
#define TRF__AUTO_IS_OWN kit_auto_is_own
