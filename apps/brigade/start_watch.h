#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "apps/brigade/interrupt.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::command {

/// SIGINT or SIGTERM came before the work had begun; nothing is lost. `what` is one line for
/// people.
class StoppedAtStart : public std::runtime_error {
 public:
  StoppedAtStart(int signal, const std::string& what)
      : std::runtime_error(what), code_(exit_code_after(signal)) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// While it lives, the first SIGINT or SIGTERM cancels a token instead of ending the process, so
/// that a wait for others can be given up in good order. The second one ends the process at once.
/// One at a time, and not together with an Interrupt, unless that is the one it looks at.
class StartWatch {
 public:
  StartWatch();
  /// The signals that `interrupt`, which must outlive this, remembers.
  explicit StartWatch(const Interrupt& interrupt);
  const concurrency::CancelToken& token() const { return token_; }

  /// What `start` makes. Throws StoppedAtStart if a signal came meanwhile, whatever `start` made of
  /// that. `waiting_for` says what the process was at.
  template <class Start>
  auto guard(const std::string& waiting_for, Start&& start) {
    auto made = attempt(waiting_for, start);
    throw_if_told(waiting_for);
    return made;
  }

  /// The same, but what `start` could make in spite of a signal is given back.
  template <class Start>
  auto attempt(const std::string& waiting_for, Start&& start) {
    try {
      return start();
    } catch (const Error&) {
      throw_if_told(waiting_for);
      throw;
    }
  }

 private:
  explicit StartWatch(std::unique_ptr<const Interrupt> own);
  void throw_if_told(const std::string& waiting_for) const;

  const concurrency::CancelToken token_;
  std::unique_ptr<const Interrupt> own_;
  const Interrupt& interrupt_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread watcher_;
};

}  // namespace brigade::command
