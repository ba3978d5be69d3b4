#include <gpuactors/agent/memory_watch.hpp>

#include <fmt/format.h>

#include <exception>
#include <system_error>
#include <utility>

namespace gpuactors {

Result<std::unique_ptr<MemoryWatch>> MemoryWatch::make(MemoryReader reader) {
  try {
    return std::unique_ptr<MemoryWatch>{new MemoryWatch{std::move(reader)}};
  } catch (const std::system_error& error) { // from std::thread
    return fail(Errc::unavailable, fmt::format("the memory of workers cannot be watched: {}; one thread more than now "
                                               "is needed (ulimit -u)",
                                               error.what()));
  }
}

MemoryWatch::MemoryWatch(MemoryReader reader) : reader_(std::move(reader)), thread_([this] { run(); }) {
  // nop
}

MemoryWatch::~MemoryWatch() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void MemoryWatch::look(MemoryQuery query, Done done) {
  {
    const std::lock_guard lock{mutex_};
    wanted_ = Wanted{std::move(query), std::move(done)};
  }
  wake_.notify_one();
}

void MemoryWatch::run() {
  for (;;) {
    std::optional<Wanted> wanted;
    {
      std::unique_lock lock{mutex_};
      wake_.wait(lock, [this] { return stopping_ || wanted_; });
      if (stopping_)
        return;
      wanted.swap(wanted_);
    }
    MemoryLook look;
    try {
      look = reader_.look(wanted->query);
    } catch (const std::exception&) {
      look = {}; // no memory even for that: the next look may have it
    }
    wanted->done(std::move(look));
  }
}

} // namespace gpuactors
