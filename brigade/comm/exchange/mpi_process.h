#pragma once

// Without the C++ functions that MPI had once.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

namespace brigade::comm {

/// Initializes MPI with MPI_THREAD_MULTIPLE unless somebody has. Whoever initializes it ends it:
/// here, when the process exits with 0. A process that fails exits without it, since MPI_Finalize
/// waits for all others; mpirun then says so and ends them. Throws kFailedPrecondition where MPI
/// runs with fewer threads, or has been finalized.
///
/// Thread-safety: one call at a time.
void start_mpi();

/// Whether MPI was initialized and not finalized.
bool is_mpi_running();

/// What MPI's error code means, for messages.
std::string mpi_error_text(int code);

}  // namespace brigade::comm
