/* Loaded before libtorch, it makes that one say that it is version 2.10.0. */
#include <stdint.h>

uint64_t aoti_torch_abi_version(void) { return ((uint64_t)2 << 56) | ((uint64_t)10 << 48); }
