#include "brigade/concurrency/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {
namespace {

using Task = std::function<void()>;

void name_this_thread(const std::string& name, std::size_t number) {
  constexpr std::size_t kLongest = 15;  // the kernel's limit; longer names are refused, not cut
  const std::string digits = std::to_string(number);
  const std::size_t room = kLongest - std::min(kLongest, digits.size());
  pthread_setname_np(pthread_self(), (name.substr(0, room) + digits).substr(0, kLongest).c_str());
}

void log_exception(const std::string& pool, std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    base::log_error(base::str_cat("a task of thread pool \"", pool, "\" threw: ", error.what()));
  } catch (...) {
    base::log_error(base::str_cat("a task of thread pool \"", pool, "\" threw something unknown"));
  }
}

}  // namespace

class ThreadPool::State {
 public:
  explicit State(ThreadPoolOptions options) : options_(std::move(options)) {
    try {
      for (std::size_t i = 0; i < options_.threads; ++i)
        threads_.emplace_back([this, i] { run(i); });
    } catch (const std::system_error& error) {
      stop();
      throw Error(ErrorCode::kResourceExhausted,
                  base::str_cat("thread pool \"", options_.name, "\": cannot start thread ",
                                threads_.size() + 1, " of ", options_.threads, ": ", error.what(),
                                "; ask for fewer threads or raise the system's limit"));
    }
    wait_started();
  }
  ~State() { stop(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void submit(Task task) {
    const MutexLock lock(mutex_);
    if (is_stopping_) return;
    tasks_.push_back(std::move(task));
    changed_tasks_.notify_one();
  }

  bool wait_idle(const CancelToken& cancel) {
    const CancelRegistration wake = cancel.on_cancel([this] {
      const MutexLock lock(mutex_);
      became_idle_.notify_all();
    });
    const MutexLock lock(mutex_);
    while (!cancel.is_cancelled() && !(tasks_.empty() && running_ == 0)) became_idle_.wait(mutex_);
    return tasks_.empty() && running_ == 0;
  }

  bool owns_this_thread() const {
    const std::thread::id self = std::this_thread::get_id();
    return std::any_of(threads_.begin(), threads_.end(),
                       [self](const std::thread& thread) { return thread.get_id() == self; });
  }

  std::size_t threads() const { return options_.threads; }

 private:
  void run(std::size_t number) {
    name_this_thread(options_.name, number);
    start(number);
    while (std::optional<Task> task = next()) {
      try {
        (*task)();
      } catch (...) {
        report(std::current_exception());
      }
      task.reset();  // what it holds is gone before the pool counts as idle
      finish();
    }
  }

  void start(std::size_t number) {
    std::exception_ptr error;
    try {
      if (options_.on_start) options_.on_start(number);
    } catch (...) {
      error = std::current_exception();
    }
    const MutexLock lock(mutex_);
    if (error && !start_error_) start_error_ = error;
    ++started_;
    changed_started_.notify_all();
  }

  void wait_started() {
    std::exception_ptr error;
    {
      const MutexLock lock(mutex_);
      while (started_ < options_.threads) changed_started_.wait(mutex_);
      error = start_error_;
    }
    if (!error) return;
    stop();
    std::rethrow_exception(error);
  }

  std::optional<Task> next() {
    const MutexLock lock(mutex_);
    while (tasks_.empty() && !is_stopping_) changed_tasks_.wait(mutex_);
    if (is_stopping_) return std::nullopt;
    std::optional<Task> task(std::move(tasks_.front()));
    tasks_.pop_front();
    ++running_;
    return task;
  }

  void finish() {
    const MutexLock lock(mutex_);
    --running_;
    if (tasks_.empty() && running_ == 0) became_idle_.notify_all();
  }

  void report(std::exception_ptr error) const {
    if (options_.on_error) {
      options_.on_error(std::move(error));
    } else {
      log_exception(options_.name, std::move(error));
    }
  }

  void stop() {
    std::deque<Task> dropped;
    {
      const MutexLock lock(mutex_);
      is_stopping_ = true;
      dropped.swap(tasks_);
      changed_tasks_.notify_all();
    }
    // Outside the lock, as a task may hold anything; before the join, as a running one may wait for
    // their end.
    dropped.clear();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  const ThreadPoolOptions options_;
  Mutex mutex_;
  Condition changed_tasks_;
  Condition changed_started_;
  Condition became_idle_;
  std::deque<Task> tasks_ BRIGADE_GUARDED_BY(mutex_);
  std::size_t running_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::size_t started_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool is_stopping_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::exception_ptr start_error_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

ThreadPool::ThreadPool(ThreadPoolOptions options) {
  check_argument(options.threads > 0, "ThreadPool: 0 threads would run nothing; ask for 1 or more");
  state_ = std::make_unique<State>(std::move(options));
}

ThreadPool::ThreadPool(std::size_t threads) : ThreadPool(ThreadPoolOptions{.threads = threads}) {}

ThreadPool::~ThreadPool() = default;

void ThreadPool::submit(Task task) {
  check_argument(static_cast<bool>(task), "ThreadPool::submit: the task is an empty function");
  state_->submit(std::move(task));
}

bool ThreadPool::wait_idle(const CancelToken& cancel) {
  check_state(!state_->owns_this_thread(),
              "ThreadPool::wait_idle: called by a task of this pool, which would wait for itself; "
              "call it from the thread that owns the pool");
  return state_->wait_idle(cancel);
}

std::size_t ThreadPool::threads() const {
  return state_->threads();
}

}  // namespace brigade::concurrency
