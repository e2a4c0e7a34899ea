"""The owner process of a cloud, which alone decides about its nodes: ``python -m workers.owner``.

- Decisions, pure: ``owner`` (dispatch and spot requests), ``lease_changes`` (extend, end, release),
  ``on_demand`` (a cloud's own users), ``overflow`` (their requests that find no room), ``renewals``,
  ``drain``.
- What they change: ``state`` (the fold of the journal), ``answer_log``, ``recorded_history``. What they say:
  ``event_writer``, ``convert``, ``adverts``.
- The process around them: ``process``, ``clock``, ``ownership`` and ``epoch_file`` (one owner at a time),
  ``standby`` (while another process is the owner), ``recovery``, ``snapshots`` and ``archiving`` (the
  journal), ``table_refresh``, ``refresh_schedule`` and ``table_turns`` (quantile tables), ``request_log``,
  ``stats``.
"""
