#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/daemon_core.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <csignal>

namespace gpuactors::detail {

struct DaemonCore::Config : caf::actor_system_config {
  explicit Config(const LinkOptions& links) {
    caf_version::add_types<caf::id_block::gpuactors>(*this);
    caf_version::set_scheduler(*this, 2);
    configure_links(*this, links);
  }
};

DaemonCore::DaemonCore(const LinkOptions& links) {
  init_message_types();
  config_ = std::make_unique<Config>(links);
  system_ = std::make_unique<caf::actor_system>(*config_);
  port_ = std::make_unique<RequestPort>(*system_, [](caf_version::Content&) {});
}

Result<std::unique_ptr<DaemonCore>> DaemonCore::make(const LinkOptions& links) {
  std::unique_ptr<DaemonCore> core{new DaemonCore{links}};
  GPUACTORS_LET(made, Links::make(*core->system_, *core->port_, links));
  core->links_ = std::move(made);
  return core;
}

DaemonCore::~DaemonCore() {
  port_->close();
  links_.reset();
  for (const auto& actor : actors_)
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  actors_.clear();
  system_->await_all_actors_done();
}

Termination::Termination() {
  sigemptyset(&waited_);
  sigaddset(&waited_, SIGTERM);
  sigaddset(&waited_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &waited_, &before_);
  // The reader of this process's output may go away; that must not end the work that the process is responsible for.
  pipe_before_ = std::signal(SIGPIPE, SIG_IGN);
  // Each connection takes a descriptor, and many systems allow a process 1,024 unless it asks for more.
  constexpr rlim_t wanted = 16 * limits::links;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < std::min(wanted, files.rlim_max)) {
    files.rlim_cur = std::min(wanted, files.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

Termination::~Termination() {
  std::signal(SIGPIPE, pipe_before_);
  // Takes signals that are pending: they would end the process once unblocked, before it has said why it ends.
  while (wait_for(Duration::zero()))
    continue;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Termination::wait() {
  int signal = 0;
  sigwait(&waited_, &signal);
}

bool Termination::wait_for(Duration time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const timespec longest{static_cast<time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
  return sigtimedwait(&waited_, nullptr, &longest) > 0;
}

} // namespace gpuactors::detail
