#include <gpuactors/cluster/detail/worker_links.hpp>
#include <gpuactors/wire/closed.hpp>

namespace gpuactors::detail {

namespace {

Error worker_gone() {
  return Error{Errc::worker_died, "the process that it ran in has ended"};
}

} // namespace

class WorkerLinks::HolderReply : public OwnReply {
public:
  HolderReply(caf::strong_actor_ptr control, OnFound done) : control_(std::move(control)), done_(std::move(done)) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    HolderHandles found{content.get_as<caf::strong_actor_ptr>(1), std::move(control_)};
    if (found.holder == nullptr)
      done_(fail(Errc::stale_epoch, "the lease is not held there any more"));
    else
      done_(std::move(found));
  }

  void on_error(Error error) override {
    // The request went to the control actor, so `actor_died` means that the worker is gone.
    // Another process that has its port now, such as an agent, does not take the request.
    if (error.code() != Errc::stale_epoch && error.code() != Errc::unavailable
        && error.code() != Errc::deadline_exceeded)
      error = worker_gone();
    done_(fail(std::move(error)));
  }

private:
  caf::strong_actor_ptr control_;
  OnFound done_;
};

void WorkerLinks::find(const std::string& address, const v1::FindHolder& message, OnFound done) {
  Wanted wanted{message, std::move(done)};
  caf::strong_actor_ptr control;
  bool dial = false;
  {
    std::unique_lock lock{mutex_};
    if (closed_) {
      lock.unlock();
      return wanted.done(fail(cluster_closed()));
    }
    const auto [entry, made] = entries_.try_emplace(address);
    control = entry->second.control;
    dial = made;
    if (control == nullptr)
      entry->second.waiting.push_back(std::move(wanted));
  }
  if (control != nullptr)
    return ask(address, control, std::move(wanted)); // NOLINT(*-use-after-move): moved above only if `control` is null
  if (!dial)
    return;
  const auto endpoint = parse_endpoint(address);
  if (!endpoint)
    return connected(address, fail(endpoint.error()));
  links_.connect(*endpoint, limits::connect_timeout,
                 [weak = weak_from_this(), address](Result<caf::strong_actor_ptr> reached) {
                   if (const auto self = weak.lock())
                     self->connected(address, std::move(reached));
                 });
}

void WorkerLinks::connected(const std::string& address, Result<caf::strong_actor_ptr> control) {
  std::vector<Wanted> waiting;
  {
    const std::lock_guard lock{mutex_};
    const auto entry = entries_.find(address);
    if (entry == entries_.end())
      return;
    waiting.swap(entry->second.waiting);
    if (control)
      entry->second.control = *control;
    else
      entries_.erase(entry);
  }
  if (!control) {
    const auto code = control.error().code() == Errc::unavailable ? Errc::worker_died : control.error().code();
    for (auto& wanted : waiting)
      wanted.done(fail(code, control.error().message()));
    return;
  }
  port_.watch(*control, worker_gone(), [weak = weak_from_this(), address, id = (*control)->id()] {
    if (const auto self = weak.lock())
      self->down(address, id);
  });
  for (auto& wanted : waiting)
    ask(address, *control, std::move(wanted));
}

void WorkerLinks::ask(const std::string& address, const caf::strong_actor_ptr& control, Wanted wanted) {
  port_.ask(std::make_shared<HolderReply>(control, std::move(wanted.done)), control,
            deadline_after(Clock::now(), 2 * limits::link_timeout), std::move(wanted.message));
  {
    const std::lock_guard lock{mutex_};
    const auto entry = entries_.find(address);
    if (entry != entries_.end() && entry->second.control == control)
      return;
  }
  // The worker went down before the request was entered, so nothing else would fail it.
  port_.fail_receiver(caf::actor_cast<caf::actor_addr>(control), worker_gone());
}

void WorkerLinks::down(const std::string& address, caf::actor_id id) {
  const std::lock_guard lock{mutex_};
  const auto entry = entries_.find(address);
  if (entry != entries_.end() && entry->second.control != nullptr && entry->second.control->id() == id)
    entries_.erase(entry);
}

void WorkerLinks::add_own(const std::string& address, caf::strong_actor_ptr control) {
  const std::lock_guard lock{mutex_};
  entries_[address].control = std::move(control);
}

void WorkerLinks::close() {
  std::vector<Wanted> waiting;
  {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    for (auto& [address, entry] : std::exchange(entries_, {}))
      std::move(entry.waiting.begin(), entry.waiting.end(), std::back_inserter(waiting));
  }
  for (auto& wanted : waiting)
    wanted.done(fail(cluster_closed()));
}

} // namespace gpuactors::detail
