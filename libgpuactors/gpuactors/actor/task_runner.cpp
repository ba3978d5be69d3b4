#include <gpuactors/actor/source_task.hpp>
#include <gpuactors/actor/task_runner.hpp>
#include <gpuactors/base/output_holder.hpp>
#include <gpuactors/base/wait_end.hpp>

#include <fmt/format.h>
#include <unistd.h>

namespace gpuactors {

TaskRunner::TaskRunner(caf::actor_config& config, OwnThreads::Thread thread,
                       std::shared_ptr<const ProcessServices> services, std::shared_ptr<HolderControl> control,
                       LeaseInfo lease)
  : Guarded(config, services->lanes, std::move(thread)), services_(std::move(services)), control_(std::move(control)),
    lease_(std::move(lease)), answers_(std::make_shared<detail::Answers>(control_, services_->lanes)) {
  // nop
}

caf::behavior TaskRunner::make_behavior() {
  return {
      [this](const Call& call) { return run(call); },
      [this](const v1::StartRunner&) { return open(); },
      [this](const v1::Tick&) {
        answers_->deliver();
        end_if_lost();
      },
      // The mailbox is in order: all calls that arrived before the fault have been answered.
      [this](const v1::DeviceFault&) { quit(caf::exit_reason::user_shutdown); },
      [this](const std::string& task, const Payload& input) { return run(detail::plain_call(task, input)); },
  };
}

void TaskRunner::on_exit() {
  // Those whose answers come later are withdrawn, and lost with the lease: they may be repeated elsewhere.
  control_->stop_all();
  answers_->fail_all(
      control_->revoked().value_or(Error{Errc::lease_revoked, "the lease ended before the task was done"}));
  if (placement_ != nullptr)
    control_->report_lost(placement_->lost_devices());
  placement_.reset();
  control_->half_ended();
}

caf::result<v1::Started> TaskRunner::open() {
  set_output_holder(lease_.id);
  detail::set_wait_end(control_->waits_end());
  auto placement = Placement::open(lease_, services_->devices, "task under lease " + to_string(lease_.id),
                                   services_->quotas, services_->runtime_source, control_.get());
  if (!placement)
    return to_caf(placement.error());
  placement_ = std::move(*placement);
  v1::Started started;
  started.set_pid(static_cast<std::uint32_t>(getpid()));
  return started;
}

Result<void> TaskRunner::check_sender(const Call& call) {
  if (is_from_server())
    return {};
  // Ids and epochs of leases are in the state that everybody sees.
  if (const auto name = caller().name; name != lease_.quota_owner)
    return fail(Errc::permission_denied,
                fmt::format("lease {} is for tasks of \"{}\", and the certificate is of \"{}\"", lease_.id.value(),
                            lease_.quota_owner, name));
  if (call.method == SourceTask::type)
    if (const auto task = call.payload.share_as<v1::SourceTask>())
      return check_foreign_source(**task);
  return {};
}

caf::result<Payload> TaskRunner::run(const Call& call) {
  if (placement_ == nullptr)
    return to_caf(Error{Errc::unavailable, "the runner has not opened its devices"});
  if (auto checked = check_sender(call); !checked)
    return to_caf(checked.error());
  const auto type = services_->registry->find_task(call.method);
  detail::HostedCall frame{this, call, *control_, *answers_, type ? services_->tasks->find((*type)->number) : nullptr};
  // Who calls a task knows which one it is.
  static const detail::HolderName nobody;
  auto answer = detail::run_call(call, frame, {}, nobody, lease_, [&]() -> Answer {
    if (!type)
      return Result<Payload>{fail(type.error())};
    const auto who = [&] { return call.method; };
    auto result = detail::guarded(who, [&]() -> Answer {
      TaskContext context{*placement_, frame, *services_};
      return (*type)->run(context, frame);
    });
    // Leftover memory is freed before the answer, so that the caller then finds the device as free as before the task.
    if (auto reclaimed = placement_->reclaim(); !reclaimed && result && result->has_value())
      return Result<Payload>{fail(reclaimed.error())};
    return result;
  });
  end_if_lost();
  return answers_->give(this, std::move(answer));
}

void TaskRunner::end_if_lost() {
  if (placement_ != nullptr && !placement_->lost_devices().empty())
    quit(caf::exit_reason::user_shutdown);
}

} // namespace gpuactors
