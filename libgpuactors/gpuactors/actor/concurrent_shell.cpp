#include <gpuactors/actor/concurrent_shell.hpp>
#include <gpuactors/actor/hosted_actor.hpp>
#include <gpuactors/base/output_holder.hpp>
#include <gpuactors/base/wait_end.hpp>

namespace gpuactors {

ConcurrentShell::ConcurrentShell(caf::actor_config& config, OwnThreads::Thread thread,
                                 std::shared_ptr<SharedObject> shared)
  : Guarded(config, shared->services->lanes, std::move(thread)), shared_(std::move(shared)),
    answers_(std::make_shared<detail::Answers>(shared_->control, shared_->services->lanes)) {
  answers_->set_name(shared_->name);
}

caf::behavior ConcurrentShell::make_behavior() {
  return {
      [this](const Call& call) { return serve(call); },
      [this](const std::string& method, const Payload& input) { return serve(detail::plain_call(method, input)); },
      [this](const v1::Tick&) {
        answers_->deliver();
        tell_if_lost();
      },
  };
}

void ConcurrentShell::on_exit() {
  answers_->fail_all(shared_->control->why_ended());
  shared_->on_end();
  shared_->ended.set_value();
}

caf::result<Payload> ConcurrentShell::serve(const Call& call) {
  set_output_holder(shared_->lease.id);
  detail::set_wait_end(shared_->control->waits_end());
  detail::set_hosted_actor({shared_->owner, CallThread::concurrent, shared_->control.get()});
  const auto method = shared_->type->find_method(call.method);
  // Its address is known from its answers, also to those who call other methods there.
  const bool fits = method && (*method)->concurrent;
  detail::HostedCall frame{this,
                           call,
                           *shared_->control,
                           *answers_,
                           fits ? shared_->methods->find((*method)->number) : nullptr,
                           detail::Keeps::no,
                           CallThread::concurrent};
  const detail::ConcurrentCall running{frame};
  auto answer = detail::run_call(call, frame, shared_->type->name, shared_->name, shared_->lease, [&]() -> Answer {
    if (!method)
      return Result<Payload>{fail(method.error())};
    if (!fits)
      return Result<Payload>{
          fail(Errc::invalid_argument, fmt::format("{} is no concurrent method: call its actor", call.method))};
    return (*method)->run(*shared_->object, frame);
  });
  tell_if_lost();
  return answers_->give(this, std::move(answer));
}

void ConcurrentShell::tell_if_lost() const {
  if (!shared_->placement->lost_devices().empty())
    shared_->on_lost();
}

} // namespace gpuactors
