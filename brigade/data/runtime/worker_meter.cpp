#include "brigade/data/runtime/worker_meter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

namespace brigade::data {

using std::chrono::nanoseconds;

namespace {

constexpr std::chrono::milliseconds kBetweenReports{5};  // a report costs some microseconds

nanoseconds cpu_time_of_this_thread() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// The format is "on-cpu-time run-delay slices" (Documentation/scheduler/sched-stats of the kernel).
nanoseconds run_delay_in(int file) {
  char text[96];
  const ssize_t size = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
  if (size <= 0) return nanoseconds(0);
  text[size] = '\0';
  char* end = nullptr;
  std::strtoull(text, &end, 10);
  return nanoseconds(std::strtoull(end, nullptr, 10));
}

}  // namespace

WorkerMeter::WorkerMeter(StageCounters* counters) : counters_(counters) {
  if (counters_ == nullptr) return;
  schedstat_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  reported_ = usage();
  reported_at_ = last_end_ = Clock::now();
}

WorkerMeter::~WorkerMeter() {
  if (schedstat_ >= 0) close(schedstat_);
}

WorkerMeter::Usage WorkerMeter::usage() const {
  return {cpu_time_of_this_thread(), run_delay_in(schedstat_)};
}

void WorkerMeter::begin_chunk(Clock::time_point now) {
  if (counters_ == nullptr) return;
  waited_ += now - last_end_;
  pull_began_ = now;
}

void WorkerMeter::end_pull() {
  if (counters_ != nullptr) counters_->pulls.add(Clock::now() - pull_began_);
}

void WorkerMeter::end_chunk(Clock::time_point now) {
  if (counters_ == nullptr) return;
  last_end_ = now;
  if (now - reported_at_ >= kBetweenReports) report(now);
}

void WorkerMeter::report(Clock::time_point now) {
  const Usage used = usage();
  const nanoseconds cpu = used.cpu - reported_.cpu;
  const nanoseconds delay = used.run_delay - reported_.run_delay;
  const nanoseconds occupied = (now - reported_at_) - waited_ - delay;
  counters_->cpu.add(cpu);
  counters_->run_delay.add(delay);
  counters_->occupied.add(std::max(occupied, cpu));
  reported_ = used;
  reported_at_ = now;
  waited_ = nanoseconds(0);
}

}  // namespace brigade::data
