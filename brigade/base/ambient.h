#pragma once

#include <array>
#include <cstddef>

namespace brigade::base {

/// The places of the ambient context, one for each thing that a call may need to know about where
/// its thread stands.
enum class AmbientIndex : std::size_t {
  kReplica,        ///< comm::Replica: the replica that this thread runs
  kStore,          ///< variables::VariableStore: where new variables are made
  kStrategy,       ///< distribute::Strategy: whose scope() is open
  kDeviceStack,    ///< the open device scopes
  kVariableScope,  ///< the open variable scope
  kArgumentScope,  ///< the open argument scope
  kGenerator,      ///< device::ReplicaGenerator: what random operations draw from
  kCount,
};

/// Where the calling thread stands: a row of borrowed pointers, filled by the folders above through
/// `AmbientSlot`. Strategies copy the caller's into each replica thread with `AmbientInstall`.
struct Ambient {
  std::array<const void*, static_cast<std::size_t>(AmbientIndex::kCount)> slots{};
};

/// The calling thread's context: the only thread-local of the library. Copy it to hand it to
/// another thread.
Ambient& ambient();

/// The typed door to one place. Declare one constant for each, in the folder that owns the type:
///   inline constexpr AmbientSlot<Replica> kReplicaSlot{AmbientIndex::kReplica};
template <class T>
struct AmbientSlot {
  AmbientIndex index;
  /// What stands there, or null. Borrowed: valid while the scope that put it there is open.
  T* get() const {
    return static_cast<T*>(const_cast<void*>(ambient().slots[static_cast<std::size_t>(index)]));
  }
};

/// Puts `value` into a slot for as long as this object lives, then puts back what stood there. Null
/// hides an outer value. Scopes must end in the reverse order of their opening, on the thread that
/// opened them.
template <class T>
class AmbientScope {
 public:
  AmbientScope(AmbientSlot<T> slot, T* value) : slot_(at(slot)), before_(slot_) {
    slot_ = value;
  }
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

/// Replaces the whole context of this thread while it lives: how a replica thread takes over its
/// caller's.
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
