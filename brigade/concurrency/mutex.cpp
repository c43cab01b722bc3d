// All is inline: this file proves that its header stands alone.
#include "brigade/concurrency/mutex.h"
