#include <gpuactors/cluster/detail/daemon_core.hpp>
#include <gpuactors/cluster/detail/system_parts.hpp>

#include <fmt/format.h>

namespace gpuactors::detail {

void warn_if_open(const std::string& host, const DaemonOptions& options) {
  if (options.insecure && !is_loopback(host))
    options.notice(fmt::format("--insecure: everybody who can reach {} can run programs here. Certificates (gpuactors "
                               "certs) let in only those who have one",
                               host));
}

struct DaemonCore::Config : caf::actor_system_config {
  explicit Config(const LinkOptions& links) {
    caf_version::add_types<caf::id_block::gpuactors>(*this);
    caf_version::set_scheduler(*this, 2);
    configure_links(*this, links);
  }
};

DaemonCore::DaemonCore(std::unique_ptr<Config> config, SystemParts parts)
  : config_(std::move(config)), system_(std::move(parts.system)), port_(std::move(parts.port)) {
  // nop
}

Result<std::unique_ptr<DaemonCore>> DaemonCore::make(const LinkOptions& links) {
  GPUACTORS_TRY(check_times(links.heartbeat, links.timeout));
  init_message_types();
  auto config = std::make_unique<Config>(links);
  GPUACTORS_LET(parts, start_system(*config, [](MessageContent&) {}));
  std::unique_ptr<DaemonCore> core{new DaemonCore{std::move(config), std::move(parts)}};
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

} // namespace gpuactors::detail
