// gpuactors dashboard: serves a cluster's state as a page for people, in a process beside the broker.
#include "assets.hpp"
#include "log_pages.hpp"
#include "page.hpp"
#include "watch.hpp"

#include <gpuactors/gpuactors.hpp>

#include <apps/gpuactors/cluster_options.hpp>
#include <apps/gpuactors/command.hpp>
#include <apps/gpuactors/http_page.hpp>
#include <apps/gpuactors/listen_options.hpp>
#include <apps/gpuactors/scraper.hpp>

#include <fmt/format.h>

#include <charconv>
#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace gpuactors::cli {

namespace dashboard {

namespace {

/// The arguments as they were typed.
struct DashboardArguments {
  ClusterOptions cluster;
  ListenOptions listen{"127.0.0.1:7713", "names, loads and logs of everything there is"};
};

constexpr auto html_type = "text/html; charset=utf-8";
constexpr auto text_type = "text/plain; charset=utf-8";

/// What a browser may do with an answer: show it, with the style and the script of this server and nothing else, and
/// tell nobody about it. HttpPage forbids to keep it.
PageAnswer guarded(int status, std::string_view type, std::string body) {
  return {status,
          std::string{type},
          std::move(body),
          {{"Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
                                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
           {"X-Content-Type-Options", "nosniff"},
           {"Referrer-Policy", "no-referrer"},
           {"Cross-Origin-Resource-Policy", "same-origin"}}};
}

/// Asks the broker again and again, so that the history has no gaps, and ends readings of logs that take too long.
class Heart {
public:
  Heart(Scraper<Look>& scraper, LogPages& logs)
    : thread_([this, &scraper, &logs](const std::stop_token& stop) { run(scraper, logs, stop); }) {
    // nop
  }

private:
  static constexpr std::chrono::milliseconds beat{500};

  void run(Scraper<Look>& scraper, LogPages& logs, const std::stop_token& stop) {
    auto ask_at = Clock::now();
    std::unique_lock lock{mutex_};
    while (!stop.stop_requested()) {
      const auto now = Clock::now();
      logs.check_deadline(now);
      if (now >= ask_at) {
        scraper.ask([](const Scrape<Look>&) {});
        ask_at = now + History::slot_length;
      }
      wake_.wait_for(lock, stop, beat, [] { return false; });
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  // The last member: its thread uses the others.
  std::jthread thread_;
};

/// Answers requests. On the thread of the HTTP server; the replies come from others.
class Pages {
public:
  /// @param connection as in `Scene`.
  Pages(Scraper<Look>& scraper, LogPages& logs, std::string broker, std::string connection)
    : scraper_(scraper), logs_(logs), broker_(std::move(broker)), connection_(std::move(connection)) {
    // nop
  }

  void answer(const PageRequest& request, PageReply reply) {
    const auto& path = request.path;
    if (path == "/" || path == "/main")
      return scraper_.ask([part = path == "/main", broker = broker_, reply = std::move(reply)](const auto& scrape) {
        reply(guarded(200, html_type, (part ? main_part(scrape, broker) : whole_page(scrape, broker)).str()));
      });
    if (path == "/readyz")
      return scraper_.ask([reply = std::move(reply)](const Scrape<Look>& scrape) {
        const bool ready = scrape.problem.empty();
        reply(guarded(ready ? 200 : 503, text_type, (ready ? "ready" : scrape.problem) + "\n"));
      });
    if (path == "/livez")
      return reply(guarded(200, text_type, "ok\n"));
    if (path == "/style.css")
      return reply(guarded(200, "text/css; charset=utf-8", std::string{style_css}));
    if (path == "/script.js")
      return reply(guarded(200, "text/javascript; charset=utf-8", std::string{script_js}));
    if (path.starts_with(logs_path))
      return answer_log(std::string_view{path}.substr(logs_path.size()), std::move(reply));
    reply(guarded(404, text_type, "there are /, /main, /logs/NUMBER of an actor, /livez and /readyz\n"));
  }

private:
  static constexpr std::string_view logs_path = "/logs/";

  void answer_log(std::string_view text, PageReply reply) {
    std::uint64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    const auto scrape = scraper_.last();
    if (read.ec == std::errc{} && read.ptr == text.data() + text.size() && scrape.value != nullptr)
      if (const auto actor = scrape.value->actors.find(number); actor != scrape.value->actors.end())
        return logs_.ask(actor->second, [reply = std::move(reply)](PageAnswer answer) {
          reply(guarded(answer.status, answer.type, std::move(answer.body)));
        });
    reply(guarded(404, text_type,
                  fmt::format("there is no actor of this number here. What one printed that has ended long ago shows\n"
                              "gpuactors logs NUMBER {}\n",
                              connection_)));
  }

  Scraper<Look>& scraper_;
  LogPages& logs_;
  std::string broker_;
  std::string connection_;
};

Result<void> run_dashboard(const DashboardArguments& arguments) {
  GPUACTORS_TRY(arguments.cluster.check());
  GPUACTORS_LET(where, arguments.listen.where());
  const StopSignals signals;
  GPUACTORS_LET(page, HttpPage::listen(where));
  GPUACTORS_LET(cluster, arguments.cluster.open_or_wait());
  // An answer may come when this function has ended: what it uses is shared with it.
  const auto watch = std::make_shared<Watch>();
  const auto broker = arguments.cluster.broker();
  const auto connection = arguments.cluster.as_arguments();
  Scraper<Look> scraper{cluster,
                        [watch, broker, connection](const v1::ClusterState& state) {
                          const Moment now{Clock::now(), std::chrono::system_clock::now()};
                          watch->take(now, state);
                          return look_at({state, *watch, now, broker, connection});
                        },
                        [watch] { return watch->question(); }};
  LogPages logs{cluster};
  const Heart heart{scraper, logs};
  Pages pages{scraper, logs, broker, connection};
  std::cout << fmt::format("dashboard at http://{}/", to_string(page.endpoint())) << std::endl;
  return page.serve([&](const PageRequest& request, PageReply reply) { pages.answer(request, std::move(reply)); },
                    signals.token());
}

} // namespace

} // namespace dashboard

Command add_dashboard(CLI::App& program) {
  auto arguments = std::make_shared<dashboard::DashboardArguments>();
  auto* parser = program.add_subcommand("dashboard", "Serve a page on the cluster for people, until Ctrl-C");
  arguments->listen.add_to(*parser);
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(
      "Open the address that it prints in a browser: what there is and what is wrong, each device with who holds which "
      "part of it, the queue with reasons, actors and what they printed last, calls, groups, quotas, events, and "
      "curves over 15 minutes. The page renews itself every 2 seconds. It changes nothing in the cluster. The commands "
      "on it have the --broker and the --certs, or --insecure, that this one was given.\n\n"
      "GET /             the page; GET /main is the part of it that changes\n"
      "GET /logs/NUMBER  the last 200 lines that an actor printed, also one that has ended, as text\n"
      "GET /livez        200 as long as it runs\n"
      "GET /readyz       200 when the broker has answered within the last seconds, else 503 with the reason\n\n"
      "It is one more client of the broker, which it asks at most once a second however many look, and every 5 seconds "
      "while nobody does. It starts without a broker too, and goes on when the broker is away.\n\n"
      "From another machine, without opening it to others: ssh -L 7713:127.0.0.1:7713 MACHINE, then "
      "http://127.0.0.1:7713/.\n\n"
      "Examples:\n"
      "  gpuactors dashboard --broker 127.0.0.1:7711\n"
      "  gpuactors dashboard --broker 10.0.0.1:7711 --listen 127.0.0.1:8080\n"
      "  gpuactors dashboard --broker 10.0.0.1:7711 --listen 10.0.0.1:7713 --allow-remote");
  return {parser, [arguments] { return dashboard::run_dashboard(*arguments); }};
}

} // namespace gpuactors::cli
