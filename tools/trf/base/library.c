// trf: the implementation of the library, an object of its own: it takes as long as all others.

#define TRF_IMPLEMENTATION
#include "base.h"
