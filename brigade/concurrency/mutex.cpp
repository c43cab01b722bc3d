// All is inline: this file checks that the header is self-contained.
#include "brigade/concurrency/mutex.h"
