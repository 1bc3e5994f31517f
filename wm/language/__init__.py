"""Language models: questions about worlds in words, asked through Inspect.

  inspect_tasks    options of tasks on Inspect's command line
  world_questions  a world and metrics -> questions; answers -> scores
  world_task       the task `wm/world`, which asks them
  providers        `wm/solver` and other models whose answers are known
  logs             logs of Inspect -> results and pages
  recorded_logs    recorded answers of papers -> logs of Inspect
  pages            the tables of such pages
  registry         what Inspect imports to find all of these
  local            serves a small model on this machine

Read `world_task` first. `wm.score` asks the same questions without Inspect's
command line, see `wm.models.language`; tasks of papers are in `wm.papers`.
"""
