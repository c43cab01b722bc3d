#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <span>

#include "brigade/machine/core_set.h"

namespace brigade::device {

/// Calls `function` on the thread on which autograd runs backward functions of tensors on `device`,
/// and waits for it: on a GPU its own thread, which lives as long as the process; on CPU the
/// calling thread. Computes a little on the device. Throws what `function` throws.
void run_on_backward_thread(c10::Device device, const std::function<void()>& function);

/// Lets autograd's thread of each of these GPUs run on the cores of `usable` that are near it, or
/// on all of `usable` if the system does not know which are. By default such a thread has the cores
/// of whatever thread made the first backward pass of the process. Does nothing on CPU.
void place_backward_threads(std::span<const c10::Device> devices, const machine::CoreSet& usable);

/// The same; `near` returns the cores near a device.
void place_backward_threads(std::span<const c10::Device> devices, const machine::CoreSet& usable,
                            const std::function<machine::CoreSet(c10::Device)>& near);

}  // namespace brigade::device
