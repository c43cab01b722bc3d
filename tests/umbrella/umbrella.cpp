#include <brigade/brigade.h>

// Names that a program's first lines use; the examples use the rest.
static_assert(sizeof(brigade::MirroredStrategy) > 0);
static_assert(sizeof(brigade::OneDeviceStrategy) > 0);
static_assert(sizeof(brigade::Error) > 0);
