"""Whether the login may commit the offsets of groups on the target: the pre-flight asks before producers are fenced.

A coordinator takes an offset if the login has READ on the group and on the topic (Kafka class KafkaApis,
handleOffsetCommitRequest).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.admin.topics import describe_topics
from twinlog.kafka.net.connections import principal
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.groups.group_moves import COMMITTED
from twinlog.model.acls import AclOperation
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TopicName
from twinlog.ops.switchover.login_acls import GRANTED_BY, LoginAcls
from twinlog.ops.switchover.model import MovedGroups, MovedTopic
from twinlog.ops.switchover.steps.group_step import UNKNOWN, judge


def lacks_read(target: ClusterAdmin, resource: str) -> str:
    """The sentence about a right that a commit lacks, with the way out; `resource` is a group or a topic, in words."""
    return f"{principal(target.client.settings)} lacks READ on {resource} of {target.alias}; {GRANTED_BY}"


def groups_by_topic(
    seen: MovedGroups, topics: Collection[MovedTopic], target_topics: Collection[TopicName]
) -> dict[TopicName, set[GroupId]]:
    """The topics on the target in which the switchover will commit offsets, with the groups.

    An offset that is untranslated so far counts: its records may be copied by then. The groups of a renamed topic also
    begin in the topic that producers will write to, which the switchover may have to create.
    """
    found: dict[TopicName, set[GroupId]] = defaultdict(set)
    later = {one.name: one.producers for one in topics if one.producers and one.producers not in target_topics}
    for one in judge(seen):
        group, source = GroupId(one.offset.group), one.offset.source.topic
        if one.result in (COMMITTED, UNKNOWN):
            found[one.offset.target.topic].add(group)
        if source in later:
            found[later[source]].add(group)
    return dict(found)


def find_refused_commits(target: ClusterAdmin, commits: Mapping[TopicName, Collection[GroupId]]) -> list[str]:
    """The rights that these commits lack on the target, a line for each topic or group with the way out.

    Brokers report the rights on groups and on existing topics (KIP-430). ACLs tell the rights on a topic that is yet to
    be created, if the login may read ACLs. Unknown rights are left out. Raises ClusterError.
    """
    groups = sorted({group for some in commits.values() for group in some})
    if not groups:
        return []
    may = target.call(GroupAdmin(target.client).operations, groups)
    lacking = [group for group, known in sorted(may.items()) if known is not None and AclOperation.READ not in known]
    return [
        *(_refusal(target, f"topic {topic}", commits[topic]) for topic in _unreadable(target, sorted(commits))),
        *(_refusal(target, f"group {group}", [group]) for group in lacking),
    ]


def _refusal(target: ClusterAdmin, resource: str, groups: Collection[GroupId]) -> str:
    """A right that is missing, the groups whose commits need it, and the way out."""
    return (
        f"commits of {listed(groups)} on {target.alias} would be refused: {lacks_read(target, resource)}; else leave "
        "these groups out by groups.exclude"
    )


def _unreadable(target: ClusterAdmin, topics: Collection[TopicName]) -> list[TopicName]:
    known, wrong = target.call(describe_topics, target.client, topics)
    lacking = [topic for topic, code in wrong.items() if error_codes.refused(code)]
    lacking += [
        topic for topic, one in known.items() if one.operations is not None and AclOperation.READ not in one.operations
    ]
    absent = [topic for topic in topics if topic not in known and topic not in lacking]
    if absent:
        acls = LoginAcls(target)
        lacking += [topic for topic in absent if acls.forbid(AclOperation.READ, topic)]
    return sorted(lacking)
