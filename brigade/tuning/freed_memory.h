#pragma once

namespace brigade::tuning {

/// From now on, memory that was freed is returned to the system after a second, where the tuning
/// would keep it. Call it at the start of a process whose threads exchange large messages, such as
/// a task of a job with parameter servers: there a block is freed by another thread than the next
/// one of its size is allocated by, and blocks that are kept are divided and never joined again, so
/// that the process would grow by what each step transfers.
///
/// What the environment's MALLOC_CONF says of jemalloc's decay takes precedence. Thread-safety: any
/// thread.
void return_freed_memory();

}  // namespace brigade::tuning
