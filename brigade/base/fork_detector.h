#pragma once

namespace brigade::base {

/// Tells whether the process is a child, made by fork, of the one that made this object. For
/// objects with threads: a child has none of them, and would wait for them without end.
///
/// It costs a load: the kernel clears a page of memory in children. Where it cannot (Linux before
/// 4.14), it costs a call of getpid.
///
/// Thread-safety: all functions from any thread.
class ForkDetector {
 public:
  ForkDetector();
  ~ForkDetector();
  ForkDetector(const ForkDetector&) = delete;
  ForkDetector& operator=(const ForkDetector&) = delete;

  bool is_in_child() const { return mark_ != nullptr ? *mark_ == 0 : is_other_process(); }

 private:
  bool is_other_process() const;

  const int process_;
  volatile int* const mark_;  // 1, and 0 in children; null where the kernel clears nothing
};

}  // namespace brigade::base
