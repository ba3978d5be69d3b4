#include <gpuactors/cluster/detail/certificate_watch.hpp>

#include <mutex>
#include <utility>

namespace gpuactors::detail {

namespace {

std::int64_t unix_s(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

} // namespace

class CertificateWatch::Rounds : public std::enable_shared_from_this<Rounds> {
public:
  Rounds(DaemonCore& core, caf::strong_actor_ptr actor) : core_(&core), actor_(std::move(actor)) {
    // nop
  }

  void look() {
    const std::lock_guard lock{mutex_};
    if (core_ == nullptr)
      return;
    const auto life = core_->links().certificate_life();
    if (!life)
      return;
    if (std::exchange(last_, *life) != *life) {
      v1::HolderUsage message;
      message.mutable_certificate()->set_from_unix_s(unix_s(life->from));
      message.mutable_certificate()->set_until_unix_s(unix_s(life->until));
      caf_version::post(actor_, std::move(message));
    }
    core_->links().after(limits::certificate_look, [weak = weak_from_this()] {
      if (const auto self = weak.lock())
        self->look();
    });
  }

  void end() {
    const std::lock_guard lock{mutex_};
    core_ = nullptr;
    actor_ = nullptr;
  }

private:
  std::mutex mutex_;
  // Guarded by the mutex.
  DaemonCore* core_;
  caf::strong_actor_ptr actor_;
  CertificateLife last_{};
};

CertificateWatch::CertificateWatch(DaemonCore& core, caf::strong_actor_ptr actor)
  : rounds_(std::make_shared<Rounds>(core, std::move(actor))) {
  rounds_->look();
}

CertificateWatch::~CertificateWatch() {
  rounds_->end();
}

} // namespace gpuactors::detail
