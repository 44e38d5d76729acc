"""`twinlog check`: reads a configuration and prints its problems, without contacting a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from twinlog.cli.foreground import print_problems, print_warnings
from twinlog.cli.run import all_clusters
from twinlog.config import load
from twinlog.config.explain import explain as explain_key
from twinlog.errors import ConfigError
from twinlog.settings.flow import CustomClass, ExactlyOnce, FlowSettings

_WRITES: Mapping[ExactlyOnce, str] = {
    "disabled": "without transactions",
    "preparing": "without transactions, ready for processes that use them",
    "enabled": "in transactions, together with positions",
}


def check(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A MirrorMaker 2 properties file.", show_default=False)],
    explain: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Print this key's value in each flow, and the line that sets it."),
    ] = None,
    clusters: Annotated[
        list[str] | None,
        typer.Option(metavar="ALIAS ...", help="Look only at flows whose target is one of these aliases."),
    ] = None,
) -> None:
    """Read a configuration, print every problem and warning, and what each flow would do. Contacts no cluster.

    Ends with code 1 if something is wrong.

    Example: twinlog check mm2.properties --explain topics.exclude
    """
    wanted = all_clusters(context, clusters)
    try:
        if explain is not None:
            for line in explain_key(path, explain):
                typer.echo(str(line))
            return
        config = load(path, wanted)
    except ConfigError as error:
        print_problems(error)
        raise typer.Exit(1) from None
    print_warnings(config.warnings)
    for flow in config.flows:
        if flow.enabled:
            typer.echo("\n".join(summary(flow)))
    beating = [flow.name for flow in config.flows if not flow.enabled]
    if beating:
        typer.echo("not enabled, heartbeats only\n  " + ", ".join(beating))


def summary(flow: FlowSettings) -> list[str]:
    """A few lines for people about what an enabled flow does."""
    translated = _every("translated", flow.emit_checkpoints_interval_s)
    committed = _every(f"committed on {flow.target}", flow.sync_group_offsets_interval_s)
    return [
        f"flow {flow.name}",
        f"  from       {', '.join(flow.consumer.client.bootstrap_servers)}",
        f"  to         {', '.join(flow.producer.client.bootstrap_servers)}",
        f"  topics     {_chosen(flow.topics, flow.topic_filter_class)}; they {_renamed(flow)}",
        f"  except     {_left_out(flow.topics_exclude, flow.topic_filter_class)}",
        f"  new topics {_every('looked for', flow.refresh_topics_interval_s)}",
        f"  settings   {_every('kept in step', flow.sync_topic_configs_interval_s)}",
        f"  ACLs       {_every('kept in step', flow.sync_topic_acls_interval_s)}",
        f"  groups     {_chosen(flow.groups, flow.group_filter_class)}",
        f"  except     {_left_out(flow.groups_exclude, flow.group_filter_class)}",
        f"  offsets    {translated}; {committed}",
        f"  tasks      at most {flow.tasks_max}",
        f"  positions  in {flow.positions_topic} on {flow.target}",
        f"  writes     {_WRITES[flow.exactly_once]}",
        f"  on a gap   {flow.gap_policy}; on a record too large: {flow.oversized_record_policy}",
        f"  renamed    {flow.renamed_topic_policy} when topics were copied to other names before",
    ]


def _renamed(flow: FlowSettings) -> str:
    if flow.policy_class is not None:
        return f"are named by {flow.policy_class.path}"
    return "keep their names" if flow.policy == "identity" else f"become {flow.source}{flow.separator}<topic>"


def _every(work: str, seconds: float | None) -> str:
    return f"not {work}" if seconds is None else f"{work} every {seconds:g} s"


def _chosen(names: tuple[str, ...], own: CustomClass | None) -> str:
    return (", ".join(names) or "(none)") if own is None else f"those that {own.path} accepts"


def _left_out(names: tuple[str, ...], own: CustomClass | None) -> str:
    return (", ".join(names) or "(none)") if own is None else "all others"
