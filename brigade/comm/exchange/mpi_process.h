#pragma once

// Without MPI's former C++ functions.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

namespace brigade::comm {

/// Initializes MPI with MPI_THREAD_MULTIPLE unless it is initialized already; in that case MPI is
/// finalized when the process exits with 0. A process that fails exits without finalizing, since
/// MPI_Finalize waits for all other processes; mpirun then reports it and ends them. Throws
/// kFailedPrecondition if MPI was initialized with a lower thread level, or has been finalized.
///
/// Thread-safety: one call at a time.
void start_mpi();

/// Whether MPI was initialized and not finalized.
bool is_mpi_running();

/// The text of an MPI error code, for messages.
std::string mpi_error_text(int code);

}  // namespace brigade::comm
