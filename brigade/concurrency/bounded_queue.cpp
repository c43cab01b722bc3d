// The queue is a template: this file proves that its header stands alone.
#include "brigade/concurrency/bounded_queue.h"
