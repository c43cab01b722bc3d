#pragma once

#include <array>
#include <cstddef>

namespace brigade::base {

/// The slots of the ambient context: thread-local pointers to the innermost open scopes.
enum class AmbientIndex : std::size_t {
  kReplica,           ///< comm::Replica: the replica that this thread runs
  kContext,           ///< distribute::ReplicaContext: of that replica
  kStore,             ///< variables::VariableStore: where new variables are made
  kStrategy,          ///< distribute::Strategy: whose scope() is open
  kDeviceStack,       ///< the open device scopes
  kVariableScope,     ///< the open variable scope
  kArgumentScope,     ///< the open argument scope
  kGenerator,         ///< device::ReplicaGenerator: what random operations draw from
  kRowSource,         ///< variables::RowSource: where layers fetch rows from
  kGradientDeferral,  ///< variables::GradientDeferral: who takes gradients that are not computed
  kBatchMemory,       ///< data::BatchMemory: where batches are stacked
  kCount,
};

/// The ambient context of a thread: borrowed pointers that other modules set through `AmbientSlot`.
/// Strategies copy the caller's context into each replica thread with `AmbientInstall`.
struct Ambient {
  std::array<const void*, static_cast<std::size_t>(AmbientIndex::kCount)> slots{};
};

/// The calling thread's context: the only thread-local variable of the library. Copy it to pass it
/// to another thread.
Ambient& ambient();

/// Typed access to one slot. Declare one constant per slot, in the module that owns the type:
///   inline constexpr AmbientSlot<Replica> kReplicaSlot{AmbientIndex::kReplica};
template <class T>
struct AmbientSlot {
  AmbientIndex index;
  /// The current value, or null. Borrowed: valid while the scope that set it is open.
  T* get() const {
    return static_cast<T*>(const_cast<void*>(ambient().slots[static_cast<std::size_t>(index)]));
  }
};

/// Sets a slot to `value` while this object lives, then restores the former value. Null hides an
/// outer value. Scopes must end in reverse order, on the thread that opened them.
template <class T>
class AmbientScope {
 public:
  AmbientScope(AmbientSlot<T> slot, T* value) : slot_(at(slot)), before_(slot_) { slot_ = value; }
  ~AmbientScope() { slot_ = before_; }
  AmbientScope(const AmbientScope&) = delete;
  AmbientScope& operator=(const AmbientScope&) = delete;

 private:
  static const void*& at(AmbientSlot<T> slot) {
    return ambient().slots[static_cast<std::size_t>(slot.index)];
  }
  const void*& slot_;
  const void* before_;
};

/// Replaces the whole context of this thread while it lives: a replica thread uses it to take over
/// its caller's context.
class AmbientInstall {
 public:
  explicit AmbientInstall(const Ambient& context);
  ~AmbientInstall();
  AmbientInstall(const AmbientInstall&) = delete;
  AmbientInstall& operator=(const AmbientInstall&) = delete;

 private:
  Ambient before_;
};

}  // namespace brigade::base
