#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "brigade/tuning/internal.h"

namespace {

constexpr const char* kQuestion = "mkl_serv_intel_cpu_true";
using Answer = int (*)();

// The function of the program's MKL; null without MKL.
Answer original() {
  return reinterpret_cast<Answer>(dlsym(RTLD_NEXT, kQuestion));
}

bool is_enabled() {
#ifdef BRIGADE_KEEP_MATH_DISPATCH
  return false;
#else
  const char* const wish = getenv("BRIGADE_MATH_DISPATCH");
  return wish == nullptr || strcmp(wish, "off") != 0;
#endif
}

}  // namespace

// MKL calls this before it selects kernels: "is this an Intel processor?" If not, it selects slow
// ones, whatever the processor supports; if so, it still checks the processor's features. The
// program's symbol takes precedence over libtorch_cpu's.
extern "C" __attribute__((visibility("default"))) int mkl_serv_intel_cpu_true() {
  if (is_enabled()) return 1;
  const Answer mkl = original();
  return mkl != nullptr ? mkl() : 0;
}

namespace brigade::tuning {

bool has_math_dispatch() {
  const auto first = reinterpret_cast<Answer>(dlsym(RTLD_DEFAULT, kQuestion));
  return is_enabled() && original() != nullptr && first == &mkl_serv_intel_cpu_true;
}

}  // namespace brigade::tuning
