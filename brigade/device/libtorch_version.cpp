#include "brigade/device/libtorch_version.h"

#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <cstdio>
#include <cstdlib>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

// Declared here because a weak symbol is null, and no failure of the loader, in a libtorch that
// lacks it.
extern "C" __attribute__((weak)) std::uint64_t aoti_torch_abi_version();

namespace brigade::device {
namespace {

constexpr int kSeriesShift = 48;  // major and minor are the two highest bytes
constexpr int kMajorShift = 56;
constexpr int kPatchShift = 40;
constexpr std::uint64_t kByte = 0xff;

std::string version_text(std::uint64_t version) {
  return base::str_cat((version >> kMajorShift) & kByte, ".", (version >> kSeriesShift) & kByte,
                       ".", (version >> kPatchShift) & kByte);
}

std::string loaded_file() {
  Dl_info found = {};
  if (::dladdr(reinterpret_cast<void*>(&aoti_torch_abi_version), &found) == 0) return "";
  return base::str_cat(" (", base::printable(found.dli_fname), ")");
}

std::string loaded_text(const std::optional<std::uint64_t>& loaded) {
  return loaded ? base::str_cat("libtorch ", version_text(*loaded), loaded_file())
                : std::string("a libtorch before 2.10");
}

// The first of the static initializers: those after it may use libtorch.
constexpr int kFirst = 101;

__attribute__((constructor(kFirst))) void stop_on_other_torch() {
  try {
    check_torch_version();
  } catch (const Error& error) {
    std::fprintf(stderr, "brigade: error: %s\n", error.what());
    std::_Exit(1);
  }
}

}  // namespace

bool is_same_torch_series(std::uint64_t built, std::uint64_t loaded) {
  return built >> kSeriesShift == loaded >> kSeriesShift;
}

std::optional<std::uint64_t> loaded_torch_version() {
  if (aoti_torch_abi_version == nullptr) return std::nullopt;
  return aoti_torch_abi_version();
}

void check_torch_version() {
  const std::optional<std::uint64_t> loaded = loaded_torch_version();
  if (loaded && is_same_torch_series(TORCH_ABI_VERSION, *loaded)) return;
  throw Error(ErrorCode::kFailedPrecondition, "Brigade was built with libtorch ",
              version_text(TORCH_ABI_VERSION), ", but this process has loaded ",
              loaded_text(loaded),
              ". Look for another libtorch in LD_LIBRARY_PATH and LD_PRELOAD, and in the program's "
              "run-time path (readelf -d PROGRAM).");
}

}  // namespace brigade::device
