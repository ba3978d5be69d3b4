#include "page.hpp"

#include <apps/gpuactors/utc.hpp>
#include <apps/gpuactors/words.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors::cli::dashboard {

namespace {

std::string title_of(const Scrape<Look>& scrape) {
  if (!scrape.problem.empty())
    return "no answer - gpuactors";
  return scrape.value != nullptr ? scrape.value->title : "gpuactors";
}

void write_head(Html& html, const Scrape<Look>& scrape) {
  const auto head = html.element("head");
  html.empty("meta", {{"charset", "utf-8"}});
  html.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  html.empty("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  html.leaf("title", {}, title_of(scrape));
  html.empty("link", {{"rel", "stylesheet"}, {"href", "/style.css"}});
  html.leaf("script", {{"src", "/script.js"}, {"defer", ""}}, "");
  const auto without = html.element("noscript");
  html.empty("meta", {{"http-equiv", "refresh"}, {"content", "10"}});
}

void write_banner(Html& html, const Scrape<Look>& scrape, const std::string& broker) {
  const auto banner = html.element("div", {{"data-part", "banner"}, {"id", "banner"}, {"role", "alert"}});
  if (scrape.problem.empty())
    return;
  const auto since = scrape.failing_since ? utc_for_people(*scrape.failing_since) : "";
  html.leaf("p", {{"class", "banner"}},
            fmt::format("⚠ The broker at {} has not answered since {} UTC: {}. {}", broker, since, scrape.problem,
                        scrape.value == nullptr ? "It is asked again and again."
                                                : "Below is what it said last, until it answers again."));
}

void write_main(Html& html, const Scrape<Look>& scrape, const std::string& broker) {
  const auto* const look = scrape.problem.empty() ? "fresh" : "stale";
  const auto main = html.element("main", {{"class", look}, {"data-title", title_of(scrape)}});
  write_banner(html, scrape, broker);
  if (scrape.value != nullptr)
    html.add(scrape.value->sections);
}

void write_header(Html& html) {
  const auto header = html.element("header");
  html.leaf("h1", {}, "gpuactors");
  const auto without = html.element("noscript");
  const auto reload = html.element("p", {{"class", "soft"}});
  html.text("Without scripts, the page is loaded anew every 10 seconds. ");
  html.leaf("a", {{"href", "/"}}, "Load it now");
}

void write_page(Html& html, const Scrape<Look>& scrape, const std::string& broker) {
  const auto root = html.element("html", {{"lang", "en"}});
  write_head(html, scrape);
  const auto body = html.element("body");
  write_header(html);
  // For the script, when this server is gone.
  html.leaf("p", {{"id", "lost"}, {"class", "banner"}, {"role", "alert"}, {"hidden", ""}}, "");
  write_main(html, scrape, broker);
  const auto footer = html.element("footer");
  html.leaf("p", {{"class", "soft"}},
            "Read only. Times are UTC. Renewed every 2 seconds while the page is seen; what "
            "has selected text in it waits.");
}

ShownActor shown_actor(const v1::ActorInfo& actor) {
  ShownActor shown{{}, name_or_number(actor)};
  shown.handle.set_id(actor.id());
  shown.handle.set_name(actor.name());
  shown.handle.set_origin(actor.origin());
  return shown;
}

std::map<std::uint64_t, ShownActor> actors_of(const v1::ClusterState& state) {
  std::map<std::uint64_t, ShownActor> actors;
  for (const auto& actor : state.actors())
    actors[actor.id()] = shown_actor(actor);
  for (const auto& ended : state.ended())
    if (const auto& node = ended.actor().lease().node(); !node.empty()) {
      auto shown = shown_actor(ended.actor());
      shown.ended_on = node;
      actors.try_emplace(ended.actor().id(), std::move(shown));
    }
  return actors;
}

} // namespace

Look look_at(const Scene& scene) {
  const auto problems = problems_of(scene.state, scene.watch.events().events(), scene.now.wall);
  Look look;
  write_overview(look.sections, scene, problems);
  for (const auto write : {write_plots, write_map, write_queue, write_actors, write_calls, write_groups, write_quotas,
                           write_ended, write_events})
    write(look.sections, scene);
  look.title = problems.empty()
                   ? "gpuactors"
                   : fmt::format("({}) problem{} - gpuactors", problems.size(), problems.size() == 1 ? "" : "s");
  look.actors = actors_of(scene.state);
  return look;
}

Html main_part(const Scrape<Look>& scrape, const std::string& broker) {
  Html html;
  write_main(html, scrape, broker);
  return html;
}

Html whole_page(const Scrape<Look>& scrape, const std::string& broker) {
  Html html;
  html.begin_page();
  write_page(html, scrape, broker);
  return html;
}

} // namespace gpuactors::cli::dashboard
