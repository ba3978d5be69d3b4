// What a thread keeps for its next call, such as a buffer.
#pragma once

namespace gpuactors {

/// A `T` for each thread, made when it is first asked for. `Tag` tells those of one type apart.
///
/// A thread's own variables end before the destructors of global objects run, and in the middle of those of its other
/// variables: who may be called from there, such as by a `Cluster` that is a global object, has nothing kept then.
template <class T, class Tag>
class ThreadCache {
public:
  /// @returns null while the thread ends.
  static T* get() {
    if (gone_)
      return nullptr;
    thread_local Kept kept;
    return &kept.value;
  }

private:
  struct Kept {
    Kept() = default;
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    ~Kept() {
      gone_ = true;
    }

    T value{};
  };

  // Without a destructor, so that it can be read for as long as the thread runs.
  static inline thread_local bool gone_ = false;
};

} // namespace gpuactors
