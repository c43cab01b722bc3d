#include "brigade/base/ambient.h"

namespace brigade::base {

Ambient& ambient() {
  thread_local Ambient context;
  return context;
}

AmbientInstall::AmbientInstall(const Ambient& context) : before_(ambient()) {
  ambient() = context;
}

AmbientInstall::~AmbientInstall() {
  ambient() = before_;
}

}  // namespace brigade::base
