"""Language models: questions about worlds in words, asked through Inspect.

  models           the plug-ins `language(model='openai/gpt-5')`,
                   `huggingface(path='gpt2')` and `solver()`
  pretrained       a folder of Hugging Face -> a network
  llm_predictor    words the questions of metrics; the answers are a predictor
  provider         calls to a model, many at a time
  answer_cache     replies on disk
  call_ledger      calls within a budget
  budget_plan      metrics within a budget
  answers          replies read as values
  inspect_tasks    options of tasks on Inspect's command line
  world_questions  a world and metrics -> questions; answers -> scores
  world_task       the task `wm/world`, which asks them
  providers        `wm/solver` and other models whose answers are known
  logs             logs of Inspect -> results and pages
  pages            the tables of such pages
  papers           papers about language models, a folder each
  registry         what Inspect imports to find all of these

Read `world_task` first. `wm.score` asks the same questions without Inspect's
command line, see `wm.language.models.language`.
"""
