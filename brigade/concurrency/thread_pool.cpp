#include "brigade/concurrency/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::concurrency {
namespace {

void name_this_thread(const std::string& name, std::size_t number) {
  constexpr std::size_t kLongest = 15;  // the kernel's limit; longer names are refused, not cut
  const std::string digits = std::to_string(number);
  const std::size_t room = kLongest - std::min(kLongest, digits.size());
  pthread_setname_np(pthread_self(), (name.substr(0, room) + digits).substr(0, kLongest).c_str());
}

void log_exception(const std::string& pool, const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    base::log_error("a task of thread pool \"", pool, "\" threw: ", error.what());
  } catch (...) {
    base::log_error("a task of thread pool \"", pool, "\" threw something unknown");
  }
}

}  // namespace

ThreadPool::ThreadPool(ThreadPoolOptions options) : options_(std::move(options)) {
  check_argument(options_.threads > 0,
                 "ThreadPool: 0 threads would run nothing; ask for 1 or more");
  try {
    for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this, i] { run(i); });
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorCode::kResourceExhausted, "thread pool \"", options_.name,
                "\": cannot start thread ", threads_.size() + 1, " of ", options_.threads, ": ",
                error.what(), "; ask for fewer threads or raise the system's limit");
  }
}

void ThreadPool::submit(Task task) {
  check_argument(static_cast<bool>(task), "ThreadPool::submit: the task is an empty function");
  const MutexLock lock(mutex_);
  if (is_stopping_) return;
  tasks_.push_back(std::move(task));
  changed_tasks_.notify_one();
}

bool ThreadPool::wait_idle(const CancelToken& cancel) {
  const bool is_a_task =
      std::ranges::count(threads_, std::this_thread::get_id(),
                         [](const std::thread& each) { return each.get_id(); }) > 0;
  check_state(!is_a_task,
              "ThreadPool::wait_idle: called by a task of this pool, which would wait for itself; "
              "call it from the thread that owns the pool");
  const CancelRegistration wake = cancel.on_cancel([this] {
    const MutexLock lock(mutex_);
    became_idle_.notify_all();
  });
  const MutexLock lock(mutex_);
  while (!cancel.is_cancelled() && !(tasks_.empty() && running_ == 0)) became_idle_.wait(mutex_);
  return tasks_.empty() && running_ == 0;
}

void ThreadPool::run(std::size_t number) {
  name_this_thread(options_.name, number);
  while (std::optional<Task> task = next()) {
    try {
      (*task)();
    } catch (...) {
      log_exception(options_.name, std::current_exception());
    }
    task.reset();  // what it holds is gone before the pool counts as idle
    finish();
  }
}

std::optional<ThreadPool::Task> ThreadPool::next() {
  const MutexLock lock(mutex_);
  while (tasks_.empty() && !is_stopping_) changed_tasks_.wait(mutex_);
  if (is_stopping_) return std::nullopt;
  std::optional<Task> task(std::move(tasks_.front()));
  tasks_.pop_front();
  ++running_;
  return task;
}

void ThreadPool::finish() {
  const MutexLock lock(mutex_);
  --running_;
  if (tasks_.empty() && running_ == 0) became_idle_.notify_all();
}

void ThreadPool::stop() {
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

}  // namespace brigade::concurrency
