#include "brigade/comm/exchange/mpi_process.h"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::comm {

namespace {

/// How long to wait in MPI_Finalize for the other processes.
constexpr std::chrono::seconds kFinalizeTimeout{30};

/// Ends the process if this is not destroyed in time.
class EndInTime {
 public:
  explicit EndInTime(int status) : thread_([this, status] { watch(status); }) {}
  ~EndInTime() {
    {
      const concurrency::MutexLock lock(mutex_);
      is_done_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

 private:
  void watch(int status) {
    const auto until = std::chrono::steady_clock::now() + kFinalizeTimeout;
    const concurrency::MutexLock lock(mutex_);
    while (!is_done_) {
      if (changed_.wait_until(mutex_, until)) continue;
      base::log_warning(base::str_cat("MPI_Finalize has waited ", kFinalizeTimeout.count(),
                                      " s for other processes; this one ends without it."));
      ::_exit(status);
    }
  }

  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  bool is_done_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

bool is_initialized() {
  int is_begun = 0;
  MPI_Initialized(&is_begun);
  return is_begun != 0;
}

bool is_finalized() {
  int is_over = 0;
  MPI_Finalized(&is_over);
  return is_over != 0;
}

void finalize_at_exit(int status, void*) {
  if (status != 0 || is_finalized()) return;
  const EndInTime in_time(status);
  MPI_Finalize();
}

void check_threads(int level) {
  if (level == MPI_THREAD_MULTIPLE) return;
  throw Error(ErrorCode::kFailedPrecondition,
              "MPI was initialized without MPI_THREAD_MULTIPLE, which the transport 'mpi' needs: "
              "call MPI_Init_thread with it, or let Brigade initialize MPI.");
}

}  // namespace

void start_mpi() {
  if (is_finalized()) {
    throw Error(ErrorCode::kFailedPrecondition,
                "MPI has been finalized in this process, and cannot be started again.");
  }
  int level = 0;
  if (is_initialized()) {
    MPI_Query_thread(&level);
    return check_threads(level);
  }
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  ::on_exit(finalize_at_exit, nullptr);
  check_threads(level);
}

bool is_mpi_running() {
  return is_initialized() && !is_finalized();
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace brigade::comm
