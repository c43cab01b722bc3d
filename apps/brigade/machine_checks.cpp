#include "apps/brigade/machine_checks.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <torch/version.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>

#include "brigade/base/environment.h"
#include "brigade/base/strings.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::command {
namespace {

constexpr bool kBuiltWithCuda = BRIGADE_CUDA_BUILT != 0;
constexpr std::uint64_t kLeastSharedMemory = std::uint64_t{16} << 20;
constexpr std::uint64_t kUsualSharedMemory = std::uint64_t{64} << 20;
constexpr rlim_t kLeastCount = 256;
constexpr rlim_t kUsualCount = 1024;

/// The program in the folders of PATH; nothing if it is in none.
std::optional<std::string> find_program(const std::string& name) {
  for (const std::string& folder : base::split(base::environment("PATH").value_or(""), ':')) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) return path.string();
  }
  return std::nullopt;
}

MachineCheck check_libtorch() {
  return {.name = "libtorch",
          .found = base::str_cat(TORCH_VERSION, kBuiltWithCuda ? ", with CUDA" : ", for CPUs")};
}

MachineCheck check_gpus(int cards) {
  const bool has_driver = std::filesystem::exists("/dev/nvidiactl");
  if (cards > 0 || !has_driver) {
    return {.name = "GPU driver",
            .is_good = cards > 0,
            .found = cards > 0 ? base::str_cat(cards, " cards") : std::string("none"),
            .advice = cards > 0 ? "" : "to train on GPUs: NVIDIA's driver (`nvidia-smi` works)"};
  }
  return {.name = "GPU driver",
          .is_good = false,
          .found = "there, but no card is usable",
          .advice = kBuiltWithCuda ? "see CUDA_VISIBLE_DEVICES and `nvidia-smi`"
                                   : "this build has no CUDA: build with a libtorch that has it"};
}

MachineCheck check_nccl() {
  const bool is_present = comm::nccl_is_built_in();
  return {.name = "NCCL",
          .is_good = is_present,
          .found = is_present ? "built in" : "not built in",
          .advice = is_present ? ""
                               : "for several GPUs: build with a libtorch for CUDA and its NCCL "
                                 "(docs/design/build.md)"};
}

MachineCheck check_rendezvous() {
  const bool is_present = rpc::is_built_in();
  return {.name = "gRPC",
          .is_good = is_present,
          .found = is_present ? "built in" : "not built in",
          .advice = is_present ? "" : "for several processes: build with Debian's libgrpc++-dev"};
}

MachineCheck check_mpi() {
  const auto program = find_program("mpirun");
  return {.name = "mpirun",
          .is_good = program.has_value(),
          .found = program.value_or("not in PATH"),
          .advice = program ? ""
                            : "to start jobs by MPI: Debian's openmpi-bin; `brigade launch` "
                              "needs none"};
}

MachineCheck check_tensorboard() {
  const auto program = find_program("tensorboard");
  return {.name = "TensorBoard",
          .is_good = program.has_value(),
          .found = program.value_or("not in PATH"),
          .advice = program ? ""
                            : "to browse event files: pip install tensorboard; `brigade "
                              "report` needs none"};
}

MachineCheck check_shared_memory() {
  struct statvfs disk {};
  if (::statvfs("/dev/shm", &disk) != 0) {
    return {.name = "/dev/shm",
            .is_good = false,
            .found = std::strerror(errno),
            .advice = "processes of one host exchange gradients there: mount a tmpfs",
            .is_problem = true};
  }
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  const bool is_enough = free >= kUsualSharedMemory;
  return {.name = "/dev/shm",
          .is_good = is_enough,
          .found = base::str_cat(base::human_bytes(free), " free"),
          .advice = is_enough ? ""
                              : "processes of one host exchange gradients there; in a container "
                                "give --shm-size 1g or --ipc host",
          .is_problem = free < kLeastSharedMemory};
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : base::str_cat(limit);
}

/// A limit on a number of things, such as RLIMIT_NOFILE.
MachineCheck check_count(decltype(RLIMIT_NOFILE) resource, std::string name,
                         std::string_view advice) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  const bool is_enough = limit.rlim_cur >= kUsualCount;
  return {.name = std::move(name),
          .is_good = is_enough,
          .found = limit_text(limit.rlim_cur),
          .advice = is_enough ? "" : std::string(advice),
          .is_problem = limit.rlim_cur < kLeastCount};
}

MachineCheck check_address_space() {
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  const bool is_free = limit.rlim_cur == RLIM_INFINITY;
  return {.name = "address space",
          .is_good = is_free,
          .found = is_free ? limit_text(limit.rlim_cur) : base::human_bytes(limit.rlim_cur),
          .advice = is_free ? "" : "libtorch reserves more than it uses: ulimit -v unlimited"};
}

}  // namespace

std::vector<MachineCheck> check_machine(int gpu_cards) {
  return {check_libtorch(),
          check_gpus(gpu_cards),
          check_nccl(),
          check_rendezvous(),
          check_mpi(),
          check_tensorboard(),
          check_shared_memory(),
          check_count(RLIMIT_NOFILE, "open files",
                      "many workers and input files need more: ulimit -n 65536"),
          check_count(RLIMIT_NPROC, "threads",
                      "replicas and input pipelines have threads: ulimit -u 4096"),
          check_address_space()};
}

}  // namespace brigade::command
