#include <gpuactors/actor/concurrent_shell.hpp>
#include <gpuactors/base/output_holder.hpp>

namespace gpuactors {

ConcurrentShell::ConcurrentShell(caf::actor_config& config, OwnThreads::Thread thread,
                                 std::shared_ptr<SharedObject> shared)
  : OwnThreads::ActorBase(config, std::move(thread)), shared_(std::move(shared)),
    answers_(std::make_shared<detail::Answers>(shared_->control, shared_->services->lanes)) {
  // nop
}

caf::behavior ConcurrentShell::make_behavior() {
  return {
      [this](const Call& call) { return serve(call); },
      [this](const std::string& method, const Payload& input) {
        Call call;
        call.method = method;
        call.payload = input;
        return serve(call);
      },
      [this](const v1::Tick&) { answers_->deliver(); },
  };
}

void ConcurrentShell::on_exit() {
  answers_->fail_all(shared_->control->why_ended());
  shared_->end();
}

caf::result<Payload> ConcurrentShell::serve(const Call& call) {
  set_output_holder(shared_->lease);
  const std::lock_guard lock{shared_->serving};
  if (shared_->object == nullptr)
    return to_caf(shared_->control->why_ended());
  detail::HostedCall frame{this, call, *shared_->control, *answers_};
  const detail::ConcurrentCall running{frame};
  auto answer = detail::run_call(call, *shared_->control, [&]() -> Answer {
    auto method = shared_->type->find_method(call.method);
    if (!method)
      return Result<Payload>{fail(method.error())};
    return (*method)->run(*shared_->object, frame);
  });
  if (!answer)
    return caf::delegated<Payload>{};
  if (!answer->has_value())
    return to_caf(answer->error());
  return answers_->answer_now(this, std::move(**answer));
}

} // namespace gpuactors
