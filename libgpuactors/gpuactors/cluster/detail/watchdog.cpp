#include <gpuactors/cluster/detail/watchdog.hpp>

#include <caf/io/middleman.hpp>
#include <caf/io/network/multiplexer.hpp>

#include <condition_variable>
#include <mutex>
#include <utility>

namespace gpuactors::detail {

class Watchdog::Rounds : public std::enable_shared_from_this<Rounds> {
public:
  Rounds(DaemonCore& core, caf::strong_actor_ptr actor, Duration every, std::function<void()> beat)
    : core_(core), actor_(std::move(actor)), every_(every), beat_(std::move(beat)) {
    // nop
  }

  void begin() {
    auto self = shared_from_this();
    core_.system().middleman().backend().post([self = std::move(self)] { self->ask(); });
  }

  void answered() {
    const std::lock_guard lock{mutex_};
    if (beat_ == nullptr)
      return;
    beat_();
    later();
  }

  /// The actor has ended, or the port, or there were too many requests.
  void unanswered() {
    const std::lock_guard lock{mutex_};
    if (beat_ != nullptr)
      later();
  }

  /// Afterwards, nothing here uses the daemon's core.
  void end() {
    std::unique_lock lock{mutex_};
    beat_ = nullptr;
    actor_ = nullptr;
    asked_.wait(lock, [this] { return !asking_; });
  }

private:
  class Reply : public OwnReply {
  public:
    explicit Reply(std::shared_ptr<Rounds> rounds) : rounds_(std::move(rounds)) {
      // nop
    }

    void on_reply(MessageContent&) override {
      rounds_->answered();
    }

    void on_error(Error) override {
      rounds_->unanswered();
    }

  private:
    std::shared_ptr<Rounds> rounds_;
  };

  /// In the event loop.
  void ask() {
    std::unique_lock lock{mutex_};
    if (beat_ == nullptr)
      return;
    asking_ = true;
    const auto actor = actor_;
    // The port may answer at once.
    lock.unlock();
    // However late the answer comes, it is one.
    core_.port().ask(std::make_shared<Reply>(shared_from_this()), actor, never, v1::PeerDown{});
    lock.lock();
    asking_ = false;
    asked_.notify_all();
  }

  /// With the lock.
  void later() {
    // A port that is closed ends the rounds.
    static_cast<void>(core_.port().after(every_, [weak = weak_from_this()] {
      if (const auto self = weak.lock())
        self->begin();
    }));
  }

  DaemonCore& core_;
  std::mutex mutex_;
  std::condition_variable asked_;
  // Guarded by the mutex.
  caf::strong_actor_ptr actor_;
  const Duration every_;
  std::function<void()> beat_;
  bool asking_ = false;
};

Watchdog::Watchdog(DaemonCore& core, caf::strong_actor_ptr actor, Duration every, std::function<void()> beat)
  : rounds_(std::make_shared<Rounds>(core, std::move(actor), every, std::move(beat))) {
  rounds_->begin();
}

Watchdog::~Watchdog() {
  rounds_->end();
}

} // namespace gpuactors::detail
