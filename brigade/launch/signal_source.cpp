#include "brigade/launch/signal_source.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace brigade::launch {

SignalSource::SignalSource(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, &former_);
  descriptor_ = base::FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalSource::~SignalSource() {
  ::pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

std::optional<int> SignalSource::next() {
  signalfd_siginfo info{};
  if (::read(descriptor_.number(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace brigade::launch
