#pragma once

#include <cstdint>
#include <string>

namespace brigade::device {

/// The arithmetic of this process on CPU: equal for two processes if the kernels that libtorch
/// chooses give the same bits. It is a hash of the results of fixed convolutions, matrix products,
/// sums, normalizations and exponentials, with their gradients, computed with `threads` intra-op
/// threads; the calling thread's number is restored. Takes some milliseconds. 16 hexadecimal
/// digits.
///
/// Kernels depend on the processor's instructions, on variables that cap them
/// (`ATEN_CPU_CAPABILITY`, `ONEDNN_MAX_CPU_ISA`, `MKL_CBWR`), on the number of threads, and on
/// libtorch's version. Equal fingerprints are strong evidence, not a proof: a kernel may differ for
/// other shapes only.
///
/// Thread-safety: any thread; not while another sets libtorch's number of threads.
std::string arithmetic_fingerprint(int threads = 1);

}  // namespace brigade::device
